// A pass over the validation images with the current training weights.
#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "data/loading/loader.h"
#include "exec/device_group.h"
#include "job/process/coordinator.h"
#include "train/metrics.h"

namespace dtrain::train {

// Observes a worker's share of each validation. Called by the trainer's thread.
class ValidationWatch {
 public:
  struct Pass {
    int64_t epoch = 0;   // index of the epoch, from 0
    uint64_t step = 0;   // number of weight updates before the validation
    int64_t images = 0;  // number of images that all workers have classified, in total
  };

  virtual ~ValidationWatch() = default;
  virtual void begin() = 0;
  // `probabilities` [rows, classes]: the network's first result for the rows of the batch, whose labels are classes.
  virtual void add(std::span<const float> probabilities, const data::LoadedBatch& batch) = 0;
  virtual void end(const Pass& pass) = 0;
};

// Every worker validates its own share of the images. On return, `metrics` holds the sums over all workers, with every
// image counted once. `seen` is called for each batch with the number of batches so far, while `inference` still holds
// the batch's results.
Result<> validate(int64_t epoch, exec::DeviceGroup& inference, data::Loader& loader, job::Coordinator& coordinator,
                  Metrics& metrics, const std::function<void(int64_t batches, const data::LoadedBatch&)>& seen);

}  // namespace dtrain::train
