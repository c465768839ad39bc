// What the device code of all kernels shares: numbers in storage and in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace dtrain::cuda {

// Threads of a block, at most: 256 are enough to keep a processor's memory pipe full with several blocks on it, and
// leave each up to 128 registers.
constexpr int kBlockThreads = 256;
// Blocks that must fit a processor at the same time. Without a number ptxas spills a few bytes where that fits one
// more, as it did in the backward pass of batch norm for sm_80.
constexpr int kBlocksMin = 2;

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

// To the nearest, ties to even; a float beyond float16's range becomes infinite, which the search for non-finite
// gradients then finds.
template <class T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}

// What is left of a number after it was stored.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// N numbers that are read and written at once, at an address that is a multiple of their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ __forceinline__ void load(const T* from, float (&x)[N]) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = to_float(pack.value[i]);
}

template <int N, class T>
__device__ __forceinline__ void store(const float (&x)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; i++) pack.value[i] = from_float<T>(x[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// N float32 parameters of neighbouring channels: 16 bytes at a time.
template <int N>
__device__ __forceinline__ void load_parameters(const float* from, float (&x)[N]) {
  constexpr int kStep = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    float part[kStep];
    load<kStep>(from + i, part);
#pragma unroll
    for (int j = 0; j < kStep; j++) x[i + j] = part[j];
  }
}

// Rows in device code.
template <class T>
struct Rows {
  const T* data;
  int64_t pitch;
  __device__ __forceinline__ const T* at(int64_t row, int64_t channel) const { return data + row * pitch + channel; }
};
template <class T>
struct RowsOut {
  T* data;
  int64_t pitch;
  __device__ __forceinline__ T* at(int64_t row, int64_t channel) const { return data + row * pitch + channel; }
};

}  // namespace dtrain::cuda
