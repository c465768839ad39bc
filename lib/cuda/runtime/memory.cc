#include "cuda/runtime/memory.h"

#include <cstdint>

namespace dtrain::cuda {

DeviceMemory::DeviceMemory(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* raw = nullptr;
  if (const cudaError_t status = cudaMalloc(&raw, bytes); status != cudaSuccess) {
    throw_no_memory(bytes, "device memory", status);
  }
  memory_ = Handle<void*, cudaFree>(raw);
  begin_ = raw;
  DT_CUDA(cudaMemset(raw, 0, bytes));
  // Waits until the memory is cleared. That happens in the default stream, for which dtrain's streams do not wait.
  DT_CUDA(cudaDeviceSynchronize());
}

DeviceMemory DeviceMemory::imagined(size_t bytes) {
  constexpr uintptr_t kAnywhere = uintptr_t{1} << 40;
  DeviceMemory memory;
  if (bytes > 0) memory.begin_ = reinterpret_cast<void*>(kAnywhere);  // NOLINT(performance-no-int-to-ptr): never used
  memory.bytes_ = bytes;
  return memory;
}

PinnedMemory::PinnedMemory(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* raw = nullptr;
  if (const cudaError_t status = cudaHostAlloc(&raw, bytes, cudaHostAllocPortable); status != cudaSuccess) {
    throw_no_memory(bytes, "pinned host memory", status);
  }
  memory_ = Handle<void*, cudaFreeHost>(raw);
}

std::shared_ptr<float> pinned_floats(size_t count) {
  auto memory = std::make_shared<PinnedMemory>(count * sizeof(float));
  return {memory, static_cast<float*>(memory->data())};
}

}  // namespace dtrain::cuda
