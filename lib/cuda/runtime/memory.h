// Device memory, and host memory that the device copies from and to directly.
//
// An executor allocates each of the two kinds of memory once, for the plan of all its tensors, and frees it when it is
// destroyed. Nothing is allocated in a step, so no pool is needed. Freeing waits for the whole device, but happens only
// when nothing runs.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/runtime/handle.h"

namespace dtrain::cuda {

// `bytes` of memory on the current device, initially zero, aligned to 256 bytes. Its addresses must not be dereferenced
// on the host. DeviceError if there is not enough memory.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes);
  // Memory that does not exist, for plans that are made without a device: it has a size and addresses, but nothing may
  // use them.
  static DeviceMemory imagined(size_t bytes);

  // The address at an offset in bytes.
  [[nodiscard]] void* at(size_t offset) const { return static_cast<std::byte*>(begin_) + offset; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  Handle<void*, cudaFree> memory_;
  void* begin_ = nullptr;
  size_t bytes_ = 0;
};

// `bytes` of pinned host memory, not cleared. Copies between it and any device can run at the same time as kernels.
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

// Pinned memory as a FloatAllocator provides it (tensor/parameter_memory.h), allocated through the current device.
std::shared_ptr<float> pinned_floats(size_t count);

}  // namespace dtrain::cuda
