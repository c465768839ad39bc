// Processes many tensors in one launch, with a table of the tensors and a list of chunks. Each chunk gets one block.
// Both lists are made once on the host, with the addresses that the memory plan assigns, and stay in device memory. A
// network has hundreds of tensors, most of them small, so a separate launch for each would cost more than the work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::cuda {

// Elements [index * kChunkElements, ...) of one tensor of a table. A chunk keeps 256 threads busy for 16 steps of 4
// elements; the 25.6 million weights of ResNet-50 make about 1,700 blocks.
struct Chunk {
  int32_t tensor, index;
};
constexpr int64_t kChunkElements = 16384;

// All chunks of tensors that have the element counts `counts`. Each chunk has `elements` elements, except the last one
// of a tensor.
inline std::vector<Chunk> chunks_of(std::span<const int64_t> counts, int64_t elements = kChunkElements) {
  std::vector<Chunk> chunks;
  for (size_t tensor = 0; tensor < counts.size(); tensor++) {
    for (int64_t index = 0; index * elements < counts[tensor]; index++) {
      chunks.push_back({static_cast<int32_t>(tensor), static_cast<int32_t>(index)});
    }
  }
  return chunks;
}

// Device pointers to a table and its chunks. `bytes` is the memory that the operation moves, for the record of its
// launch.
template <class Tensor>
struct Table {
  const Tensor* tensors = nullptr;
  const Chunk* chunks = nullptr;
  int64_t chunk_count = 0;
  int64_t bytes = 0;
};

}  // namespace dtrain::cuda
