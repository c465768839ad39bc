#include "cuda/runtime/store_stream.h"

#include <cuda_runtime_api.h>

#include <thread>

namespace dtrain::cuda {

namespace {

// CUDA has no wait with a time limit, so the event is polled at this interval.
constexpr std::chrono::microseconds kPoll{20};

}  // namespace

Result<> StoreStream::wait(cudaEvent_t event) const {
  if (!watch_) {
    DT_CUDA(cudaEventSynchronize(event));
    return {};
  }
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    // `watch` is called even if the event has occurred, because results of a group that failed are invalid.
    DT_TRY_VOID(watch_(std::chrono::steady_clock::now() - begin));
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) throw_cuda_error(__FILE__, __LINE__, "cudaEventQuery(event)", state);
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace dtrain::cuda
