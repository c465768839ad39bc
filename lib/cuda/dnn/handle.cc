#include "cuda/dnn/handle.h"

#include "cuda/runtime/cudnn_error.h"

namespace dtrain::cuda {

CudnnHandle make_cudnn_handle() {
  cudnnHandle_t raw = nullptr;
  DT_CUDNN(cudnnCreate(&raw));
  return CudnnHandle(raw);
}

}  // namespace dtrain::cuda
