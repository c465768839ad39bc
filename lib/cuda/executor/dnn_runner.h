// Convolutions by cuDNN: the plans of dnn/ for the executor.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "cuda/executor/convolution_runner.h"

namespace dtrain::cuda {

// For the device `device`. plan_cache: dnn/plan_cache.h's file, or empty. Code::kDevice if cuDNN has no use for the
// device.
//
// Engines that cuDNN calls non-deterministic are left out: the same run gives the same weights.
Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int device, const std::string& plan_cache, const Log& log);

}  // namespace dtrain::cuda
