// The softmax of a batch and the gradient of its loss. kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// p = softmax of each row of x; the row's maximum is subtracted first.
//   x [rows, classes], dense    p [rows, classes], dense, float32
// Bytes: rows * classes * (bytes_of(type) + 4).
struct Softmax {
  Type type = Type::kFloat32;  // type of x
  int64_t rows = 0, classes = 0;
  const void* x = nullptr;
  float* p = nullptr;
};
void softmax(const Softmax& softmax, cudaStream_t stream);

// dx = (p - [label]) * loss_scale. With smoothing a: dx[label] = (p - 1 + a) * loss_scale, and for the other classes (p
// - a / (classes - 1)) * loss_scale. The result is multiplied by `factor`.
//   p [rows, classes], float32    dx [rows, classes]
//   labels: integers below `classes` (checked on the host); that of row i is at i * label_stride
//   loss_scale: one float in device memory; null means 1
// Bytes: rows * classes * (4 + bytes_of(type)) + 4 * rows.
struct SoftmaxBackward {
  Type type = Type::kFloat32;  // type of dx
  int64_t rows = 0, classes = 0;
  double smooth_alpha = 0;
  float factor = 1;
  const float* p = nullptr;
  const float* labels = nullptr;
  int64_t label_stride = 1;
  const float* loss_scale = nullptr;
  void* dx = nullptr;
};
void softmax_backward(const SoftmaxBackward& backward, cudaStream_t stream);

}  // namespace dtrain::cuda
