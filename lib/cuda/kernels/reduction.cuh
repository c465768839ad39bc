// Sums over the rows of a map for each channel, used by batch normalization and the bias gradient.
//
// One launch. The rows are split into chunks, and the channels into tiles of up to 32 groups; a block sums one chunk
// for one tile. Each thread sums its rows in registers, then the threads of a channel are combined as a tree in shared
// memory, which gives one partial result per chunk and channel. The blocks that finish last then add the partial
// results (finish_tile), so that no second kernel has to be launched for that. The split and the order of all additions
// depend only on the shape, so the sums have the same bits whichever block is last.
#pragma once

#include "cuda/kernels/host.cuh"

namespace dtrain::cuda {

struct Chunks {
  Dim grid, block;
  int64_t count, rows_each;  // rows_each: rows of a chunk; the last chunk may have fewer
};

// The largest number of blocks. An H100 runs these in two full waves of three blocks per multiprocessor. More blocks
// would not be faster, and there would be more partial results to sum.
constexpr int64_t kReductionBlocks = 792;
// The minimum number of blocks that must fit on a multiprocessor, for groups of N channels. With fewer blocks than
// these, too few loads would be under way. The bound concerns the end of the kernels (finish_tile), which ptxas would
// otherwise give more registers than their loop over the rows needs.
template <int N>
constexpr int kReductionBlocksMin = N == 8 ? 3 : 5;
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

// Chunks with the same number modulo kChunkSets are a set. The partial results of a set are added by the last of its
// blocks, and the sums of all sets by the last block of the tile. So most of the additions are made while other blocks
// still sum rows. If the last block of a tile added all partial results of its up to 256 channels, it would read up to
// 1.6 MB on its own while the rest of the device waits.
constexpr int kChunkSets = 32;

inline int64_t sets_of(int64_t chunks) {
  return std::min<int64_t>(chunks, kChunkSets);
}

// The size in bytes of `quantities` partial results for each channel and chunk, and for each channel and set. In the
// record of a launch they count once, although they are written and read: the L2 cache holds them in between.
inline int64_t bytes_of_partials(int64_t chunks, int64_t quantities, int64_t channels) {
  return (chunks + sets_of(chunks)) * quantities * channels * int64_t{sizeof(float)};
}

// The same for a map. It is sufficient for groups of one channel and for groups of 16 bytes.
inline int64_t partials_bytes(Type type, int64_t rows, int64_t channels, int64_t quantities) {
  const int64_t narrow = chunks_of(rows, channels).count;
  const int64_t wide = chunks_of(rows, divide_up(channels * bytes_of(type), 16)).count;
  return bytes_of_partials(std::max(narrow, wide), quantities, channels);
}

// Q quantities of a channel, which are summed together.
template <int Q>
struct Sums {
  float of[Q] = {};
  __device__ __forceinline__ Sums& operator+=(const Sums& more) {
#pragma unroll
    for (int q = 0; q < Q; q++) of[q] += more.of[q];
    return *this;
  }
};

// Results of blocks in device memory, Q quantities per channel.
template <int Q>
struct Partials {
  float* of_chunks;    // [chunk][quantity][channel]
  float* of_sets;      // [set][quantity][channel]
  uint32_t* counters;  // [tile][kChunkSets + 1]
  int64_t chunks, channels;

  // Writes the quantity of a chunk in N neighboring channels.
  template <int N>
  __device__ __forceinline__ void write(int64_t chunk, int quantity, int64_t channel, const float (&x)[N]) const {
#pragma unroll
    for (int k = 0; k < N; k++) of_chunks[(chunk * Q + quantity) * channels + channel + k] = x[k];
  }
  // Reads what other blocks have written. The access is volatile, so that it comes after the barrier before it and does
  // not read an old value from this multiprocessor's L1 cache.
  __device__ __forceinline__ Sums<Q> read(const float* from, int64_t index, int64_t channel) const {
    Sums<Q> sums;
    const volatile float* const at = from + index * Q * channels + channel;
#pragma unroll
    for (int q = 0; q < Q; q++) sums.of[q] = at[q * channels];
    return sums;
  }
  __device__ __forceinline__ void write_set(int64_t set, int64_t channel, const Sums<Q>& sums) const {
#pragma unroll
    for (int q = 0; q < Q; q++) of_sets[(set * Q + q) * channels + channel] = sums.of[q];
  }
  __device__ __forceinline__ Sums<Q> of_chunk(int64_t chunk, int64_t channel) const {
    return read(of_chunks, chunk, channel);
  }
};

// workspace: has partials_bytes().   counters: see counters_of().
template <int Q>
Partials<Q> partials_in(void* workspace, uint32_t* counters, const Chunks& chunks, int64_t channels) {
  DT_KERNEL_CHECK(counters != nullptr, "a reduction needs counters");
  auto* const floats = static_cast<float*>(workspace);
  return {floats, floats + chunks.count * Q * channels, counters, chunks.count, channels};
}

// The number of counters that a reduction over maps with this number of channels needs.
constexpr int64_t counters_of(int64_t channels) {
  return divide_up(channels, kTileGroups) * (kChunkSets + 1);
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

// Counts one of `all` arrivals of blocks, and returns whether it is the last one. The last one sets the counter back to
// zero, so that the next launch finds it as this one did. That also holds in a CUDA graph, which is replayed without a
// step that clears the counters. Only a launch that is aborted leaves other values, and after that the device runs
// nothing for this process any more.
__device__ __forceinline__ bool arrives_last(uint32_t* counter, uint32_t all) {
  return atomicInc(counter, all - 1) == all - 1;
}

// Adds the terms of the chunks of one set, for the statistics of `channel`.
template <class Finish>
__device__ __forceinline__ auto sum_of_set(const Finish& finish, int64_t set, int64_t channel) {
  using Sum = decltype(finish.partials.of_chunk(0, 0));
  // Several sums, because with a single sum each addition would have to wait for its load.
  constexpr int kSums = 4;
  Sum sums[kSums];
  const auto term = finish.terms(channel);
  const int64_t end = finish.partials.chunks;
  int64_t chunk = set;
#pragma unroll 1  // or ptxas needs more registers here than the rest of the kernel needs
  for (; chunk + (kSums - 1) * kChunkSets < end; chunk += kSums * kChunkSets) {
#pragma unroll
    for (int i = 0; i < kSums; i++) sums[i] += term(chunk + i * kChunkSets);
  }
#pragma unroll 1
  for (; chunk < end; chunk += kChunkSets) sums[0] += term(chunk);
#pragma unroll
  for (int i = 1; i < kSums; i++) sums[0] += sums[i];
  return sums[0];
}

// Adds the sums of the sets kSet, kSet + kStep, kSet + 2 kStep ... as a tree, where kSet counts from `first`.
template <int kSet, int kStep, int Q>
__device__ __forceinline__ Sums<Q> tree_of_sets(const Partials<Q>& p, int first, int sets, int64_t channel) {
  if constexpr (kStep == kChunkSets) {
    return first + kSet < sets ? p.read(p.of_sets, first + kSet, channel) : Sums<Q>{};
  } else {
    Sums<Q> sum = tree_of_sets<kSet, 2 * kStep>(p, first, sets, channel);
    return sum += tree_of_sets<kSet + kStep, 2 * kStep>(p, first, sets, channel);
  }
}

// The same for all sets. The two upper levels of the tree are loops, because ptxas moves all loads of a tree to its
// beginning. For 32 sets they would need more registers than the rest of the kernel, which would reduce the number of
// blocks that fit on a multiprocessor.
template <int Q>
__device__ __forceinline__ Sums<Q> sum_of_sets(const Partials<Q>& p, int sets, int64_t channel) {
  Sums<Q> sum;
#pragma unroll 1
  for (int half = 0; half < 2; half++) {
    Sums<Q> part;
#pragma unroll 1
    for (int quarter = 0; quarter < 2; quarter++) part += tree_of_sets<0, 4>(p, half + 2 * quarter, sets, channel);
    sum += part;
  }
  return sum;
}

// Ends a reduction. All threads of all blocks call this function, after each block has written the partial results of
// its chunk to finish.partials. The last block of each tile gets the sums over all chunks, and calls
//   finish.result(channel, sums)
// for each of its channels, in one thread per channel. What is summed are the values of term(chunk), where `term` is
// finish.terms(channel). The terms may use the chunk's own partial result and that of chunk 0. So the block of chunk 0
// counts as a block of every set.
//
// How what a block writes reaches the block that reads it: all threads of the block make their writes visible to the
// device (__threadfence) and meet at a barrier before one of them counts the block's arrival; the last to arrive has
// another fence and a barrier before its threads read. Source: CUDA's programming guide, "Memory Fence Functions".
template <int N, class Finish>
__device__ __forceinline__ void finish_tile(const Finish& finish) {
  static_assert(N <= kBlockThreads / kTileGroups, "a block has a thread for each channel of its tile");
  __shared__ bool completes[kChunkSets], ends;
  const auto& p = finish.partials;
  const int chunk = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int sets = p.chunks < kChunkSets ? static_cast<int>(p.chunks) : kChunkSets;
  const int first = chunk % kChunkSets, end = chunk == 0 ? sets : first + 1;  // the sets of this block
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x * N + thread;
  const bool active = thread < static_cast<int>(blockDim.x) * N && channel < p.channels;
  uint32_t* const counters = p.counters + blockIdx.x * (kChunkSets + 1);
  __threadfence();
  __syncthreads();
  if (thread >= first && thread < end) {
    const auto blocks = static_cast<uint32_t>((p.chunks - thread + kChunkSets - 1) / kChunkSets + (thread > 0 ? 1 : 0));
    completes[thread] = arrives_last(counters + thread, blocks);
    __threadfence();
  }
  __syncthreads();
  int completed = 0;
  for (int set = first; set < end; set++) {
    if (!completes[set]) continue;
    completed++;
    if (!active) continue;
    const auto sum = sum_of_set(finish, set, channel);
    p.write_set(set, channel, sum);
  }
  if (completed == 0) return;
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    for (; completed > 0; completed--) ends = arrives_last(counters + kChunkSets, static_cast<uint32_t>(sets));
    __threadfence();
  }
  __syncthreads();
  if (ends && active) finish.result(channel, sum_of_sets(p, sets, channel));
}

// Ends a reduction of a single quantity, whose sums over the rows are its result.
struct FinishSum {
  Partials<1> partials;
  float* sums;

  __device__ __forceinline__ auto terms(int64_t channel) const {
    return [this, channel](int64_t chunk) { return partials.of_chunk(chunk, channel); };
  }
  __device__ __forceinline__ void result(int64_t channel, const Sums<1>& sum) const { sums[channel] = sum.of[0]; }
};

// Called by all threads of all blocks with the sums over their own rows.
template <int N>
__device__ __forceinline__ void finish_sum(const FinishSum& finish, const RowsOfThread& mine, float (&sum)[N]) {
  __shared__ float memory[N][kBlockThreads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < N; k++) memory[k][thread] = sum[k];
  merge_block_rows([&](unsigned from) {
#pragma unroll
    for (int k = 0; k < N; k++) memory[k][thread] += memory[k][from];
  });
  if (threadIdx.y == 0 && mine.active) {
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] = memory[k][thread];
    finish.partials.write(blockIdx.y, 0, mine.channel, sum);
  }
  finish_tile<N>(finish);
}

}  // namespace dtrain::cuda
