// Memory of the device, and host memory that the device copies from and to by itself.
//
// An executor takes each kind once, for the plan of all its tensors, and gives it back with itself: nothing is
// allocated in a step, so no pool is needed, and freeing (which waits for the whole device) happens where nothing runs
// any more.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

// `bytes` of memory on the current device, zero at first, aligned to 256 bytes. Pointers into it mean nothing on the
// host. DeviceError where there is not so much.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes);

  // The address of an offset in bytes.
  [[nodiscard]] void* at(size_t offset) const { return static_cast<std::byte*>(memory_.get()) + offset; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  Handle<void*, cudaFree> memory_;
  size_t bytes_ = 0;
};

// `bytes` of pinned host memory, not cleared: the source of copies that run beside kernels, to any device.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes);

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  Handle<void*, cudaFreeHost> memory_;
  size_t bytes_ = 0;
};

// Pinned memory as a FloatAllocator gives it (tensor/parameter_memory.h), by way of the current device.
std::shared_ptr<float> pinned_floats(size_t count);

}  // namespace dtrain::cuda
