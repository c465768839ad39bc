// The common parts of the forward and the backward pass of batch normalization.
#pragma once

#include "cuda/kernels/reduction.cuh"

namespace dtrain::cuda {

// The parameters of the N channels that a thread processes: y = (x - mean) * scale + beta.
template <int N>
struct Affine {
  float mean[N], scale[N], beta[N];
};

// Replaces each x by y (see Affine). Both passes use this function, so that the backward pass recomputes exactly the
// sign that the forward pass computed.
template <int N>
__device__ __forceinline__ void normalize(const Affine<N>& affine, float (&x)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) x[k] = (x[k] - affine.mean[k]) * affine.scale[k] + affine.beta[k];
}

template <int N>
__device__ __forceinline__ void load_scale(const float* gamma, const float* inv_std, int64_t channel,
                                           float (&scale)[N]) {
  load_parameters<N>(inv_std + channel, scale);
  if (gamma == nullptr) return;
  float g[N];
  load_parameters<N>(gamma + channel, g);
#pragma unroll
  for (int k = 0; k < N; k++) scale[k] = g[k] * scale[k];
}

}  // namespace dtrain::cuda
