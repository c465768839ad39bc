// Where a worker of a simulated job is in the run.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loading/epoch_rest.h"

namespace dtrain::sync::membership {

// All workers of a job have the same position at a meeting.
struct SimulatedPosition {
  uint64_t epoch = 0;
  // If every worker makes the same number of steps in an epoch: how many since the records were last divided, and how
  // many there are in all.
  int64_t made = 0, steps = 0;
  uint64_t next = 0;                   // the number of the next step
  data::EpochRest rest = {};           // what other workers have read of the epoch
  uint64_t division = 0;               // numbers the divisions of the records
  std::vector<uint32_t> members = {};  // the ranks that divide the records
  bool is_original = true;             // whether as many workers as at the start have made all steps so far
};

}  // namespace dtrain::sync::membership
