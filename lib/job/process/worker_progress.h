// A worker's report of its progress, for those who watch the job.
#pragma once

#include <cstdint>
#include <optional>

#include "job/process/data_stage.h"

namespace dtrain::job {

struct Quality {
  double loss = 0;      // the mean cross-entropy of the images
  double accuracy = 0;  // share of images that were classified correctly, 0 to 1
};

struct WorkerProgress {
  uint64_t step = 0;
  double samples_per_s = 0;    // rate of this worker
  double wait_data_share = 0;  // fraction of the time since the last report in which the worker waited for data
  double wait_network_share = 0;
  // The stage that limits the worker; kNone: data does not limit it, or the stage is not known.
  DataStage data_stage = DataStage::kNone;
  double checkpoint_s = 0;  // the longest time that this worker has taken to write a checkpoint
  // Completed fraction of the current validation, 0 to 1; nullopt: the worker trains.
  std::optional<double> validated = {};
  std::optional<Quality> training = {};    // means over this worker's part of the epoch so far
  std::optional<Quality> validation = {};  // results of the last validation, over all workers
  uint32_t rank = 0;                       // rank of the worker; only set for those who watch
};

}  // namespace dtrain::job
