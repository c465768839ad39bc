// Convolutions with cuDNN: makes the plans of dnn/ available to the executor.
#pragma once

#include <memory>

#include "base/log.h"
#include "cuda/executor/convolution_runner.h"
#include "exec/device_module.h"

namespace dtrain::cuda {

// The files of plans (dnn/plan_cache.h), and how new plans are chosen. Runners of several devices may share it, also if
// several threads use them.
class PlanStore;
std::shared_ptr<PlanStore> open_plan_store(const exec::PlanSettings& settings, const Log& log);

// Creates a runner for device `device`. Code::kDevice if cuDNN cannot use the device.
Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int device, std::shared_ptr<PlanStore> plans,
                                                           const Log& log);

}  // namespace dtrain::cuda
