#include "cuda/runtime/store_stream.h"

#include <cuda_runtime_api.h>

#include <optional>
#include <thread>

namespace dtrain::cuda {

namespace {

// CUDA has no wait with a time limit, and its wait keeps a core busy, so the event is polled at this interval.
constexpr std::chrono::microseconds kPoll{20};

}  // namespace

Result<> StoreStream::wait_for(cudaEvent_t event, const Watch& watch) const {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Waits::Wait> listed;
  for (;;) {
    const cudaError_t state = cudaEventQuery(event);
    const auto waited = std::chrono::steady_clock::now() - begin;
    // `watch` is called even if the event has occurred, because results of a group that failed are invalid.
    if (watch) DT_TRY_VOID(watch(waited));
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) throw_cuda_error(__FILE__, __LINE__, "cudaEventQuery(event)", state);
    if (waited >= limits_.failed_after) throw_hanging(limits_.failed_after);
    if (waits_ != nullptr && !listed && waited >= limits_.listed_after) {
      listed.emplace(*waits_, [device = device_] { return fmt::format("the work of GPU {}", device); });
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace dtrain::cuda
