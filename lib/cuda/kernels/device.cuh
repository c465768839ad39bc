// Device code shared by all kernels: conversion between stored types and float registers, loads and stores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// The largest number of threads per block. 256 threads keep a multiprocessor's memory pipeline full with several
// resident blocks, and leave each thread up to 128 registers.
constexpr int kBlockThreads = 256;
// The minimum number of blocks that must fit on a multiprocessor at the same time. Without this bound, ptxas spills a
// few bytes of registers to make room for one more block, as it did in the backward pass of batch normalization for
// sm_80.
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

// Rounds to nearest, ties to even. A float beyond float16's range becomes infinite; the search for nonfinite gradients
// finds that.
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

// The value of x after rounding to T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// N values that are read and written at once, at an address that is a multiple of their total size.
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

// Loads N float32 parameters of neighboring channels, 16 bytes at a time if their address allows it. The address may
// not allow it, because the parameters of a network follow each other without gaps, and a parameter with 3 channels
// shifts all later ones.
template <int N>
__device__ __forceinline__ void load_parameters(const float* from, float (&x)[N]) {
  if constexpr (N % 4 == 0) {
    if (reinterpret_cast<uintptr_t>(from) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        float part[4];
        load<4>(from + i, part);
#pragma unroll
        for (int j = 0; j < 4; j++) x[i + j] = part[j];
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = from[i];
}

// Rows of a tensor, in device code.
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

// Loads or stores N elements of an array whose type is known only at run time.
template <int N>
__device__ __forceinline__ void load_as(Type type, const void* from, int64_t at, float (&x)[N]) {
  switch (type) {
    case Type::kFloat32: return load<N>(static_cast<const float*>(from) + at, x);
    case Type::kFloat16: return load<N>(static_cast<const __half*>(from) + at, x);
    case Type::kBfloat16: return load<N>(static_cast<const __nv_bfloat16*>(from) + at, x);
  }
}
template <int N>
__device__ __forceinline__ void store_as(Type type, const float (&x)[N], void* to, int64_t at) {
  switch (type) {
    case Type::kFloat32: return store<N>(x, static_cast<float*>(to) + at);
    case Type::kFloat16: return store<N>(x, static_cast<__half*>(to) + at);
    case Type::kBfloat16: return store<N>(x, static_cast<__nv_bfloat16*>(to) + at);
  }
}

}  // namespace dtrain::cuda
