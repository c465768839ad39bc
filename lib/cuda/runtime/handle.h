// Owners of handles from CUDA's libraries. Handles are checked and owned before the next call can throw; destructors
// never throw.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/runtime/error.h"

namespace dtrain::cuda {

// Owns one handle. Destroy(raw) must return a status for which 0 is success, as CUDA, cuDNN and NCCL do.
template <class Raw, auto Destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(Raw raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_ == nullptr || device_hangs()) return;
    if (const auto status = static_cast<int>(Destroy(raw_)); status != 0) report_failed_destroy("CUDA handle", status);
  }

  [[nodiscard]] Raw get() const { return raw_; }

 private:
  Raw raw_ = nullptr;
};

using CudaStream = Handle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = Handle<cudaEvent_t, cudaEventDestroy>;

// A stream on the current device that does not synchronize with the legacy default stream.
CudaStream make_stream();
// An event for ordering streams; with `timing` also for measuring, which makes each record slower.
CudaEvent make_event(bool timing = false);

}  // namespace dtrain::cuda
