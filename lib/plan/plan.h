// `dtrain plan`: groups workers of similar speed, divides the data among them, and estimates how much this accelerates
// the training. The caller provides the speeds.
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
  double bandwidth = 10;    // bandwidth of each host in each direction, in Gbit/s; 0: unlimited
};

// The job for which a plan is made.
struct PlannedJob {
  std::vector<double> speeds;            // speed of each worker in samples/s, indexed by rank
  std::string speeds_from;               // the source of the speeds, for messages
  std::string hint = {};                 // advice to the user about the speeds; empty: none
  std::vector<job::WorkerPlace> places;  // host and address of each worker, indexed by rank
  int64_t records = 0;                   // number of records in the training set
  int64_t epoch_samples = 0;             // samples per epoch; 0: as many as there are records
  int64_t batch_size = 1;                // samples in a batch of one worker
  int64_t servers = 1;
  int64_t bytes = 0;      // size of a step's gradients
  int64_t staleness = 0;  // SSP's staleness bound
  int64_t backup = 0;     // number of BSP's backup workers
};

struct Plan {
  PlannedJob job;
  sync::Grouping grouping;
  std::vector<data::Share> shares;  // the records of each worker, indexed by rank
  SimulateResult simulated;         // the simulation, which covers a part of an epoch
  double epochs_simulated = 1;      // the simulated part, as a fraction of an epoch

  [[nodiscard]] std::string groups_text() const;    // content of the groups file
  [[nodiscard]] std::string sharding_text() const;  // content of the data-sharding file
  // For example "expected: GSP 2.3 times as fast as BSP an epoch (simulated: 12.3 s instead of 28.1 s)".
  [[nodiscard]] std::string expectation() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;  // the plan as JSON, on one line
  // The predicted duration of an epoch, in seconds, under the first scheme whose name begins with `scheme` ("gsp").
  [[nodiscard]] double epoch_s(std::string_view scheme) const;
};

// Code::kData if a worker has no usable speed (the message names it); kUsage if values do not fit together. `show`
// displays the progress of the simulation.
Result<Plan> make_plan(
    const PlannedJob& job, const PlanOptions& options, const ShowLive& show = [](const Live&) {});

struct PlanFiles {
  std::string groups, sharding;  // paths of the groups file and of the file of shares
};
// Code::kUsage if a file of another kind exists at one of the paths; it must not be overwritten.
Result<> check_plan_files(const PlanFiles& files);
// Calls check_plan_files(), then writes both files, each of them atomically. Returns one line of text for each file,
// which says what was done.
Result<std::string> write_plan_files(const Plan& plan, const PlanFiles& files);

}  // namespace dtrain::plan
