// Pooling over NHWC maps, forward and backward. kernels/tensor.h says what holds for all kernels; graph::Pooling says
// which windows and divisors there are, models.md 2.2 is their source.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// Maps x [n, h, w, channels] and y [n, p, q, channels]; window (i, j) begins at row i * stride_h - pad_h. Every
// rounding is a p and a q: windows may reach over the map's end, but begin inside it and hold a real cell. Global
// pooling is a kernel of h x w. n*h*w and n*p*q < 2^31.
struct PoolingShape {
  int64_t n = 0, h = 0, w = 0, channels = 0, p = 0, q = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
};

// The bytes of one index of a maximum: its place in the window, counted row by row from the window's corner (which may
// lie in the padding). 1, for windows of at most 256 cells, or 4.
int64_t max_pooling_index_bytes(const PoolingShape& shape);

// y = the maximum of each window's real cells; where [n, p, q, channels], dense: the first of them in row-major order,
// for the backward pass. Without `where` (inference) none is written.
// Bytes: (x + y) * bytes_of(type) + y * index bytes, x and y being their elements.
struct MaxPooling {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  In x = {};
  Out y = {};
  void* where = nullptr;
};
void max_pooling(const MaxPooling& pooling, cudaStream_t stream);

// dx = add + the sum of dy of the windows whose maximum it was. Every dx collects from the windows that it lies in,
// windows in row-major order, so no atomics: reading `where` costs less than recomputing maxima from x would.
// add may be absent, and be dx. Bytes: (x, or 2 x with add, + y) * bytes_of(type) + y * index bytes.
struct MaxPoolingBackward {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  In dy = {}, add = {};
  const void* where = nullptr;
  Out dx = {};
};
void max_pooling_backward(const MaxPoolingBackward& backward, cudaStream_t stream);

// By what the sum of a window's real cells is divided.
enum class Divide { kByPadded, kByKernel };  // graph::Pooling::Divisor

// y = the sum of each window's real cells, row by row, / its divisor.   Bytes: (x + y) * bytes_of(type).
struct AveragePooling {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  Divide divide = Divide::kByPadded;
  In x = {};
  Out y = {};
};
void average_pooling(const AveragePooling& pooling, cudaStream_t stream);

// dx = add + the sum of dy / divisor over the windows that it lies in. add may be absent, and be dx.
// Bytes: (x, or 2 x with add, + y) * bytes_of(type).
struct AveragePoolingBackward {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  Divide divide = Divide::kByPadded;
  In dy = {}, add = {};
  Out dx = {};
};
void average_pooling_backward(const AveragePoolingBackward& backward, cudaStream_t stream);

}  // namespace dtrain::cuda
