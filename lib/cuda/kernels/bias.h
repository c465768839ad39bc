// The bias of a layer, its gradient, and the sum over images. kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// y = x + bias.   x, y [rows, channels]; y may be x   bias [channels]   Bytes: 2 * rows * channels * bytes_of(type).
struct BiasAdd {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  In x = {};
  const float* bias = nullptr;
  Out y = {};
};
void bias_add(const BiasAdd& add, cudaStream_t stream);

// The size of the `workspace` and the number of `counters` that a BiasGradient needs; see kernels/tensor.h.
int64_t bias_workspace_bytes(Type type, int64_t rows, int64_t channels);
int64_t bias_counters(int64_t channels);

// dbias [channels] = the sum of dy [rows, channels] over its rows. One launch.
// Bytes: rows * channels * bytes_of(type), the partial results, and 4 * channels.
struct BiasGradient {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  In dy = {};
  float* dbias = nullptr;
  void* workspace = nullptr;
  uint32_t* counters = nullptr;
};
void bias_gradient(const BiasGradient& gradient, cudaStream_t stream);

// y [elements] = the sum of the images of x [images, elements], in their order. One launch.
// Bytes: (images + 1) * elements * bytes_of(type).
struct ImageSum {
  Type type = Type::kFloat32;
  int64_t images = 0, elements = 0;
  const void* x = nullptr;
  void* y = nullptr;
};
void image_sum(const ImageSum& sum, cudaStream_t stream);

}  // namespace dtrain::cuda
