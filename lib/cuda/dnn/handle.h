// An owning cuDNN handle. Only one thread at a time may use it.
#pragma once

#include <cudnn_graph.h>

#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

using CudnnHandle = Handle<cudnnHandle_t, cudnnDestroy>;

// Creates a handle on the current device.
CudnnHandle make_cudnn_handle();

}  // namespace dtrain::cuda
