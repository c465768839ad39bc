// Constant tables in device memory, mostly tables of tensors for kernels that process many tensors at once
// (kernels/tables.h).
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "cuda/kernels/tables.h"
#include "cuda/runtime/memory.h"

namespace dtrain::cuda {

// Copies the values to the device. Returns when the copy is complete.
template <class T>
DeviceMemory device_copy(const std::vector<T>& values) {
  DeviceMemory memory(values.size() * sizeof(T));
  if (values.empty()) return memory;
  const CudaStream stream = make_stream();
  DT_CUDA(cudaMemcpyAsync(memory.at(0), values.data(), memory.bytes(), cudaMemcpyHostToDevice, stream.get()));
  DT_CUDA(cudaStreamSynchronize(stream.get()));
  return memory;
}

template <class Tensor>
class DeviceTable {
 public:
  DeviceTable() = default;
  // counts: for each tensor, the number of elements that the kernel processes. Returns when the table is on the device.
  DeviceTable(const std::vector<Tensor>& tensors, const std::vector<int64_t>& counts, int64_t bytes,
              int64_t chunk_elements = kChunkElements) {
    const std::vector<Chunk> chunks = chunks_of(counts, chunk_elements);
    tensors_ = device_copy(tensors);
    chunks_ = device_copy(chunks);
    table_ = {static_cast<const Tensor*>(tensors_.at(0)), static_cast<const Chunk*>(chunks_.at(0)),
              static_cast<int64_t>(chunks.size()), bytes};
  }

  [[nodiscard]] const Table<Tensor>& table() const { return table_; }
  [[nodiscard]] bool empty() const { return table_.chunk_count == 0; }
  [[nodiscard]] size_t bytes() const { return tensors_.bytes() + chunks_.bytes(); }

 private:
  DeviceMemory tensors_, chunks_;
  Table<Tensor> table_;
};

}  // namespace dtrain::cuda
