#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

CudaStream make_stream() {
  cudaStream_t raw = nullptr;
  DT_CUDA(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
  return CudaStream(raw);
}

CudaEvent make_event(bool timing) {
  cudaEvent_t raw = nullptr;
  DT_CUDA(cudaEventCreateWithFlags(&raw, timing ? cudaEventDefault : cudaEventDisableTiming));
  return CudaEvent(raw);
}

}  // namespace dtrain::cuda
