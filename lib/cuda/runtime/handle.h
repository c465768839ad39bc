// Owners of what CUDA's libraries hand out. Create checked, own before the next call can throw; destructors never
// throw.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/runtime/error.h"

namespace dtrain::cuda {

// One foreign handle. Destroy(raw) returns a status whose 0 is success, as those of CUDA, cuDNN and NCCL are.
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
    if (raw_ == nullptr) return;
    if (const auto status = static_cast<int>(Destroy(raw_)); status != 0) report_failed_destroy("CUDA handle", status);
  }

  [[nodiscard]] Raw get() const { return raw_; }

 private:
  Raw raw_ = nullptr;
};

using CudaStream = Handle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = Handle<cudaEvent_t, cudaEventDestroy>;

// A stream that does not wait for the legacy default stream, on the current device.
CudaStream make_stream();
// For ordering streams; with `timing`, for measuring them too (which makes each record slower).
CudaEvent make_event(bool timing = false);

}  // namespace dtrain::cuda
