// The CUDA backend: compiles graphs for one device.
#pragma once

#include <memory>

#include "cuda/executor/convolution_runner.h"
#include "exec/executor.h"

namespace dtrain::cuda {

// Makes the backend of device `device`; `runner` computes its convolutions. Executors keep the runner alive.
std::unique_ptr<exec::Backend> make_backend(int device, std::shared_ptr<ConvolutionRunner> runner);

}  // namespace dtrain::cuda
