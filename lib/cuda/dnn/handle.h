// A handle of cuDNN that owns itself. One thread at a time uses it.
#pragma once

#include <cudnn_graph.h>

#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

using CudnnHandle = Handle<cudnnHandle_t, cudnnDestroy>;

// On the current device.
CudnnHandle make_cudnn_handle();

}  // namespace dtrain::cuda
