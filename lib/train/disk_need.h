// The space on disk that a run's checkpoints will need, so that a full disk is noticed before the first epoch and not
// hours later.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dtrain::train {

// Which checkpoints of epochs a run writes.
struct CheckpointPlan {
  int64_t save_period = 1;  // in epochs; 0: never
  int64_t num_epochs = 1;
  int64_t keep = 0;      // that stay on disk; 0: all
  int64_t finished = 0;  // epochs, of which the checkpoints have been written
  int64_t on_disk = 0;   // checkpoints of the run, of those that `keep` counts
};

// The most checkpoints that the run will add at one time to those on disk. While one is written, the one that it
// replaces is still there.
int64_t checkpoints_to_come(const CheckpointPlan& plan);

struct DiskNeed {
  int64_t checkpoints = 0;  // to come at one time
  double checkpoint = 0;    // bytes of one, with the optimizer's state
  double best = 0;          // bytes of PREFIX-best; 0: none is written
  [[nodiscard]] double bytes() const { return static_cast<double>(checkpoints) * checkpoint + best; }
};

// What to tell the user if the space that is free for checkpoints with this prefix is less than what all of them need;
// empty if they fit. Code::kData: there is not even space for one.
Result<std::string> check_disk(const DiskNeed& need, const std::string& prefix, double free_bytes);

// The bytes that are free on the file system of a prefix, whose directory need not exist yet. Infinite if this cannot
// be found out.
double free_bytes_for(const std::string& prefix);

}  // namespace dtrain::train
