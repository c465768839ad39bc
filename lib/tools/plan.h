// `dtrain plan`: chooses groups of workers of similar speed and their shares of the data, and estimates the gain. The
// caller provides the speeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/share.h"
#include "job/groups.h"
#include "sync/grouping.h"
#include "tools/simulate.h"

namespace dtrain::tools {

struct PlanOptions {
  sync::GroupingOptions grouping = {};
  double latency_ms = 0.1;  // of the simulated network
  double bandwidth = 10;    // Gbit/s of a host each way; 0: endless
};

// The job that is planned.
struct PlannedJob {
  std::vector<double> speeds;            // samples/s by rank
  std::string speeds_from;               // a line about them
  std::vector<job::WorkerPlace> places;  // by rank
  int64_t records = 0;                   // of the training set
  int64_t epoch_samples = 0;             // of an epoch; 0: records
  int64_t batch_size = 1;                // of a worker
  int64_t servers = 1;
  int64_t bytes = 0;      // of a step's gradients
  int64_t staleness = 0;  // of SSP
  int64_t backup = 0;     // of BSP
};

struct Plan {
  PlannedJob job;
  sync::Grouping grouping;
  std::vector<data::Share> shares;  // by rank
  SimulateResult simulated;         // of a part of an epoch, see epoch_s
  double epochs_simulated = 1;      // that part

  [[nodiscard]] std::string groups_text() const;    // of the file groups
  [[nodiscard]] std::string sharding_text() const;  // of data_sharding
  // "expected: GSP 2.3 times as fast as BSP an epoch (simulated: 12.3 s instead of 28.1 s)"
  [[nodiscard]] std::string expectation() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
  // Of a scheme that begins so ("gsp"), in seconds, predicted.
  [[nodiscard]] double epoch_s(std::string_view scheme) const;
};

// Code::kData names a worker without a usable speed; kUsage: numbers that do not go together.
Result<Plan> make_plan(const PlannedJob& job, const PlanOptions& options);

struct PlanFiles {
  std::string groups, sharding;  // paths
};
// Code::kUsage: something is there that is no such file, and is not to be overwritten.
Result<> check_plan_files(const PlanFiles& files);
// Writes both, each whole or not at all, after check_plan_files. What was done, a line a file.
Result<std::string> write_plan_files(const Plan& plan, const PlanFiles& files);

}  // namespace dtrain::tools
