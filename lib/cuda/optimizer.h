// An optimizer on a device: one launch updates all arrays of a group in place.
#pragma once

#include <memory>

#include "exec/executor.h"
#include "optim/array_optimizer.h"

namespace dtrain::cuda {

// Updates the device_parameters() of `executor`, a training executor of this backend that must outlive the optimizer.
// Works in the stream of the executor's store. If a gradient of its arrays is not finite in this step or was not in an
// earlier step, no weight changes; the executor reports that in skipped_update(). (An executor that itself skips bad
// steps resets this at the end of the step.) Code::kUsage for an unknown rule. DeviceError if the device fails.
//
// Values that change from step to step are in pinned memory, which the device reads when it runs the update. They exist
// once for each of the steps that may be queued at the same time (StoreStream::turn), so when an update is made, the
// executor must have finished the step of the same group's second last update.
Result<std::unique_ptr<optim::ArrayOptimizer>> make_device_optimizer(exec::Executor& executor,
                                                                     const optim::OptimizerSpec& spec);

}  // namespace dtrain::cuda
