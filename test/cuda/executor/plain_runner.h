// Convolutions by exec/reference's plain loops, on NHWC memory of any type: what takes cuDNN's place in tests. The
// whole CUDA executor so runs on the host (emulator.h).
#pragma once

#include <memory>

#include "cuda/executor/backend.h"

namespace dtrain::cuda::test {

// Sums in float32, results rounded to the type, as cuDNN's. Refuses with Code::kDevice what names `refused`.
std::shared_ptr<ConvolutionRunner> plain_runner(std::string refused = "");

// The CUDA backend over it.
std::unique_ptr<exec::Backend> emulated_backend();

}  // namespace dtrain::cuda::test
