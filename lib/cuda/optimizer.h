// The form of an optimizer for a device: one launch updates all arrays of a group, where they lie.
#pragma once

#include <memory>

#include "exec/executor.h"
#include "optim/array_optimizer.h"

namespace dtrain::cuda {

// Over the device_parameters() of an executor of this backend for training, which outlives it; works in the stream of
// its store. While a gradient of its arrays is not finite, or was in an earlier step, no weight changes: the executor's
// left_out_update. (An executor that leaves out bad steps by itself forgets it at the end of the step.) Code::kUsage:
// an unknown rule. DeviceError where the device fails.
//
// What changes from step to step lies in pinned memory that the device reads when it gets there: between an update and
// the next one of the same group the executor's backward has returned.
Result<std::unique_ptr<optim::ArrayOptimizer>> make_device_optimizer(exec::Executor& executor,
                                                                     const optim::OptimizerSpec& spec);

}  // namespace dtrain::cuda
