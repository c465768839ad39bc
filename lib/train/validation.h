// A pass over the validation images with the weights of training.
#pragma once

#include <string>

#include "base/error.h"
#include "data/loader.h"
#include "exec/device_group.h"
#include "kvstore/coordinator.h"
#include "train/metrics.h"

namespace dtrain::train {

// Every worker looks at its own share; what comes back in `metrics` are the sums over all of them, every image once.
Result<> validate(int64_t epoch, exec::DeviceGroup& inference, data::Loader& loader, kvstore::Coordinator& coordinator,
                  Metrics& metrics);

}  // namespace dtrain::train
