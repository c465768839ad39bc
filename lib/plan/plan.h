// `dtrain plan`: chooses groups of workers of similar speed and their shares of the data, and estimates the gain. The
// caller provides the speeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/records/share.h"
#include "job/spec/groups.h"
#include "plan/simulate.h"
#include "sync/grouping.h"

namespace dtrain::plan {

struct PlanOptions {
  sync::GroupingOptions grouping = {};
  double latency_ms = 0.1;  // latency of the simulated network
  double bandwidth = 10;    // Gbit/s of a host in each direction; 0: unlimited
};

// The job to plan for.
struct PlannedJob {
  std::vector<double> speeds;            // samples/s, indexed by rank
  std::string speeds_from;               // where the speeds come from, as text
  std::string hint = {};                 // advice to the user about the speeds; empty: none
  std::vector<job::WorkerPlace> places;  // indexed by rank
  int64_t records = 0;                   // number of records in the training set
  int64_t epoch_samples = 0;             // samples per epoch; 0: records
  int64_t batch_size = 1;                // per worker
  int64_t servers = 1;
  int64_t bytes = 0;      // size of a step's gradients
  int64_t staleness = 0;  // SSP's staleness bound
  int64_t backup = 0;     // number of BSP's backup workers
};

struct Plan {
  PlannedJob job;
  sync::Grouping grouping;
  std::vector<data::Share> shares;  // indexed by rank
  SimulateResult simulated;         // the simulation of a part of an epoch
  double epochs_simulated = 1;      // that part, as a fraction of an epoch

  [[nodiscard]] std::string groups_text() const;    // content of the groups file
  [[nodiscard]] std::string sharding_text() const;  // content of the data-sharding file
  // Example: "expected: GSP 2.3 times as fast as BSP an epoch (simulated: 12.3 s instead of 28.1 s)".
  [[nodiscard]] std::string expectation() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // one line
  // The predicted seconds per epoch of the first scheme whose name begins with `scheme` ("gsp").
  [[nodiscard]] double epoch_s(std::string_view scheme) const;
};

// Code::kData names a worker without a usable speed; kUsage if values do not fit together. `show` receives the progress
// of the simulation.
Result<Plan> make_plan(
    const PlannedJob& job, const PlanOptions& options, const ShowLive& show = [](const Live&) {});

struct PlanFiles {
  std::string groups, sharding;  // paths
};
// Code::kUsage if one of the paths is a file of another kind, which must not be overwritten.
Result<> check_plan_files(const PlanFiles& files);
// Writes both files after check_plan_files(), each completely or not at all. Returns text that describes what was done,
// one line for each file.
Result<std::string> write_plan_files(const Plan& plan, const PlanFiles& files);

}  // namespace dtrain::plan
