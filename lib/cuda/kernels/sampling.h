// Sampling of maps at transformed positions. kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// The positions are computed as in exec/sampling.h, which this directory does not include.
struct SamplingShape {
  int64_t n = 0, channels = 0;
  int64_t h = 0, w = 0;  // size of the maps that are sampled
  int64_t p = 0, q = 0;  // size of the results, at least 2 each
};

// y: each image of x sampled by its transformation.
//   x [n*h*w, channels]    t [n, 6]    y [n*p*q, channels]
// Bytes: n * channels * (h*w + p*q) * bytes_of(type).
struct Sample {
  Type type = Type::kFloat32;
  SamplingShape shape = {};
  In x = {}, t = {};
  Out y = {};
};
void sample(const Sample& sample, cudaStream_t stream);

// The gradients with respect to the transformations, and with respect to x if dx is not null.
//   dy [n*p*q, channels]    dt [n, 6]    dx [n*h*w, channels], dense, float32, because many positions add to a cell
// Bytes: n * channels * (h*w + p*q) * bytes_of(type), and 4 * n * h * w * channels for dx.
struct SampleBackward {
  Type type = Type::kFloat32;
  SamplingShape shape = {};
  In x = {}, t = {}, dy = {};
  Out dt = {};
  float* dx = nullptr;
};
void sample_backward(const SampleBackward& backward, cudaStream_t stream);

}  // namespace dtrain::cuda
