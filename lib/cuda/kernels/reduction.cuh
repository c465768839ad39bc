// Sums over the rows of a map for each channel, used by batch normalization and the bias gradient.
//
// Two launches, without atomics. First the rows are split into chunks. A block sums one chunk for up to 32 groups of
// channels: each thread sums its rows in registers, then the threads of a channel are combined as a tree in shared
// memory, which gives one partial result per channel. In the second kernel, a block takes 8 channels and sums their
// partial results, again as a tree. The split depends only on the shape.
#pragma once

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

// Partial results: [chunk][quantity][channel], float32.
struct Chunks {
  Dim grid, block;
  int64_t count, rows_each;  // rows_each: rows of a chunk; the last chunk may have fewer
};

// The largest number of blocks of the first kernel. An H100 runs these in two full waves of three blocks per
// multiprocessor. More blocks would not be faster, and would give the second kernel more partial results to sum.
constexpr int64_t kReductionBlocks = 792;
constexpr int64_t kTileGroups = 32;  // groups of a block: 512 contiguous bytes of a row if a group has 16 bytes

inline Chunks chunks_of(int64_t rows, int64_t groups) {
  const int64_t tiles = divide_up(groups, kTileGroups), x = divide_up(groups, tiles), y = kBlockThreads / x;
  const int64_t most = std::max<int64_t>(kReductionBlocks / tiles, 1);
  const int64_t wanted = std::clamp<int64_t>(rows / (y * kRowsOfThreadMin), 1, most);
  const int64_t each = divide_up(rows, wanted), count = divide_up(rows, each);
  return {.grid = {static_cast<uint32_t>(tiles), static_cast<uint32_t>(count)},
          .block = {static_cast<uint32_t>(x), static_cast<uint32_t>(y)},
          .count = count,
          .rows_each = each};
}

// The size in bytes of `quantities` partial results for each channel and chunk. It is sufficient for groups of one
// channel and for groups of 16 bytes.
inline int64_t partials_bytes(Type type, int64_t rows, int64_t channels, int64_t quantities) {
  const int64_t narrow = chunks_of(rows, channels).count;
  const int64_t wide = chunks_of(rows, divide_up(channels * bytes_of(type), 16)).count;
  return std::max(narrow, wide) * quantities * channels * int64_t{sizeof(float)};
}

// This thread's part of a chunk.
struct RowsOfThread {
  int64_t channel, begin, end, step;
  bool active;
  __device__ RowsOfThread(int64_t rows, int64_t rows_each, int64_t groups, int width) {
    const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, chunk = int64_t{blockIdx.y} * rows_each;
    active = group < groups;
    channel = group * width;
    begin = chunk + threadIdx.y;
    end = active ? (chunk + rows_each < rows ? chunk + rows_each : rows) : 0;
    step = blockDim.y;
  }
};

// Combines the values of all block rows (the threads with the same threadIdx.y) into block row 0. For that it calls
// merge(from), where `from` is the index within the block of the thread whose value is to be merged into the calling
// thread's value. All threads of the block must call this function.
template <class Merge>
__device__ __forceinline__ void merge_block_rows(Merge&& merge) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned n = blockDim.y; n > 1;) {
    const unsigned half = (n + 1) / 2;
    __syncthreads();
    if (threadIdx.y < n - half) merge(thread + half * blockDim.x);
    n = half;
  }
}

// A block of the second kernel has 8 channels with 32 threads each.
constexpr int kFinalChannels = 8, kFinalThreads = 32;

inline Grid final_grid(int64_t channels) {
  return {{static_cast<uint32_t>(divide_up(channels, kFinalChannels))}, {kFinalChannels, kFinalThreads}};
}

// Two quantities of a channel, which are summed together.
struct Pair {
  float first, second;
  __device__ __forceinline__ Pair& operator+=(const Pair& more) {
    first += more.first;
    second += more.second;
    return *this;
  }
};

// Returns the sum of term(chunk), floats or Pairs, over all chunks. All threads of a channel get the same value. All
// threads of the block must call this function exactly once; those that have a channel are `active`.
template <class Term>
__device__ auto sum_chunks(int64_t count, bool active, Term&& term) {
  using Sum = decltype(term(int64_t{0}));
  __shared__ Sum memory[kFinalChannels * kFinalThreads];
  const unsigned thread = threadIdx.y * kFinalChannels + threadIdx.x;
  // Several sums, because with a single sum each addition would have to wait for its load.
  constexpr int kSums = 4;
  Sum sums[kSums] = {};
  const int64_t end = active ? count : 0;
  int64_t chunk = threadIdx.y;
  for (; chunk + (kSums - 1) * kFinalThreads < end; chunk += kSums * kFinalThreads) {
#pragma unroll
    for (int i = 0; i < kSums; i++) sums[i] += term(chunk + i * kFinalThreads);
  }
  for (; chunk < end; chunk += kFinalThreads) sums[0] += term(chunk);
#pragma unroll
  for (int i = 1; i < kSums; i++) sums[0] += sums[i];
  memory[thread] = sums[0];
  merge_block_rows([&](unsigned from) { memory[thread] += memory[from]; });
  __syncthreads();
  return memory[threadIdx.x];
}

}  // namespace dtrain::cuda
