// The part of CUDA's C++ that lib/cuda/kernels uses, for a host compiler. See emulator.h.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block at a time runs in a host thread, so static variables can serve as the block's shared memory.
#define __shared__ static thread_local

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __threadfence();

namespace dtrain::cuda::emulator {
// Returns the value that lane (this one ^ lane_mask) passes in the same call. All 32 lanes of the warp must call this.
uint32_t exchange(unsigned mask, uint32_t bits, int lane_mask);
// Called by every atomic operation with which a block tells other blocks that its results are in memory. Throws
// CheckFailed unless every thread of the block has called __threadfence between the last two barriers.
void check_published();
}  // namespace dtrain::cuda::emulator

inline float __shfl_xor_sync(unsigned mask, float value, int lane_mask) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = dtrain::cuda::emulator::exchange(mask, bits, lane_mask);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// Blocks run one after another, so these need not be atomic.
inline unsigned atomicInc(unsigned* address, unsigned most) {
  dtrain::cuda::emulator::check_published();
  const unsigned old = *address;
  *address = old >= most ? 0 : old + 1;
  return old;
}

// Tells other blocks nothing about results in memory.
inline unsigned atomicMax(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old > value ? old : value;
  return old;
}

inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
