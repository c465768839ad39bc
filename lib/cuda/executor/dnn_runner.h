// Convolutions with cuDNN: makes the plans of dnn/ available to the executor.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "cuda/executor/convolution_runner.h"

namespace dtrain::cuda {

// Creates a runner for device `device`. plan_cache: the file of dnn/plan_cache.h, or empty. Code::kDevice if cuDNN
// cannot use the device.
//
// Engines that cuDNN calls nondeterministic are excluded, so the same run gives the same weights.
Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int device, const std::string& plan_cache, const Log& log);

}  // namespace dtrain::cuda
