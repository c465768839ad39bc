// The space on disk that a run's checkpoints will need, so that a full disk is noticed before the first epoch and not
// hours later.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace dtrain::train {

// Which end-of-epoch checkpoints a run writes.
struct CheckpointPlan {
  int64_t save_period = 1;  // number of epochs between checkpoints; 0: none are written
  int64_t num_epochs = 1;
  int64_t keep = 0;      // number of checkpoints to keep on disk; 0: all
  int64_t finished = 0;  // number of epochs whose checkpoints have been written
  int64_t on_disk = 0;   // number of this run's checkpoints on disk that count towards `keep`
};

// The largest number of checkpoints that will be on disk in addition to those that are there now. While a checkpoint is
// being written, the checkpoint that it replaces still exists.
int64_t checkpoints_to_come(const CheckpointPlan& plan);

struct DiskNeed {
  int64_t checkpoints = 0;  // the result of checkpoints_to_come()
  double checkpoint = 0;    // bytes of one checkpoint, with the optimizer state
  double best = 0;          // bytes of PREFIX-best; 0: none is written
  [[nodiscard]] double bytes() const { return static_cast<double>(checkpoints) * checkpoint + best; }
};

// A warning for the user if the free space for checkpoints with this prefix is less than all of them need; empty if
// they fit. Code::kData if there is not even space for one.
Result<std::string> check_disk(const DiskNeed& need, const std::string& prefix, double free_bytes);

// The free bytes on the file system of a prefix, whose directory need not exist yet. Infinite if this cannot be
// determined.
double free_bytes_for(const std::string& prefix);

}  // namespace dtrain::train
