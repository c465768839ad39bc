// Normalization over neighboring channels. kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// The common parameters of both passes; see graph::LocalResponseNorm.
struct ResponseNormShape {
  int64_t rows = 0, channels = 0;
  int64_t size = 1;      // number of channels in a sum; odd
  float alpha_each = 0;  // alpha / size
  float beta = 0, k = 1;
};

// y = x d^-beta, d = k + alpha / size * (the sum of x^2 over the surrounding channels). Sums are in the order of the
// channels.
//   x, y [rows, channels]    d [rows, channels], dense, float32; may be null
// Bytes: rows * channels * (2 * bytes_of(type) + 4, or without d 2 * bytes_of(type)).
struct ResponseNorm {
  Type type = Type::kFloat32;
  ResponseNormShape shape = {};
  In x = {};
  float* d = nullptr;
  Out y = {};
};
void response_norm(const ResponseNorm& norm, cudaStream_t stream);

// dx = dy d^-beta - 2 beta alpha / size * x * (the sum of dy x d^(-beta - 1) over the surrounding channels).
//   x, dy, dx [rows, channels]    d: as the forward pass wrote it
// Bytes: rows * channels * (3 * bytes_of(type) + 4).
struct ResponseNormBackward {
  Type type = Type::kFloat32;
  ResponseNormShape shape = {};
  In x = {}, dy = {};
  const float* d = nullptr;
  Out dx = {};
};
void response_norm_backward(const ResponseNormBackward& backward, cudaStream_t stream);

}  // namespace dtrain::cuda
