// Convolutions computed by the plain loops of exec/reference on NHWC memory of any type. They replace cuDNN in tests,
// so that the whole CUDA executor runs on the host (emulator.h).
#pragma once

#include <memory>

#include "cuda/executor/backend.h"

namespace dtrain::cuda::test {

// Sums in float32 and rounds results to the type, as cuDNN does. Passes whose text contains `refused` fail with
// Code::kDevice.
std::shared_ptr<ConvolutionRunner> plain_runner(std::string refused = "");

// The CUDA backend with a plain_runner.
std::unique_ptr<exec::Backend> emulated_backend();

}  // namespace dtrain::cuda::test
