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

// Every worker validates its own share of the images. On return, `metrics` holds the sums over all workers, with every
// image counted once. `seen` is called for each batch, with the number of batches so far, while `inference` has its results.
Result<> validate(int64_t epoch, exec::DeviceGroup& inference, data::Loader& loader, job::Coordinator& coordinator,
                  Metrics& metrics, const std::function<void(int64_t batches, const data::LoadedBatch&)>& seen);

}  // namespace dtrain::train
