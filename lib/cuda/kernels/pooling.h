// Pooling over NHWC maps, forward and backward. kernels/tensor.h has the conventions of all kernels; graph::Pooling
// defines windows and divisors (docs/arithmetic.md, "Operators").
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// Maps x [n, h, w, channels] and y [n, p, q, channels]; window (i, j) begins at row i * stride_h - pad_h. The rounding
// mode is expressed by p and q: windows may extend beyond the map, but must begin inside it and contain a cell of the
// map. Global pooling is a kernel of h x w. n*h*w and n*p*q must be below 2^31.
struct PoolingShape {
  int64_t n = 0, h = 0, w = 0, channels = 0, p = 0, q = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
};

// The size of the index of a maximum, which is its position in the window, counted row by row from the window's corner
// (possibly in the padding): 1 byte for windows of at most 256 cells, otherwise 4.
int64_t max_pooling_index_bytes(const PoolingShape& shape);

// y = the maximum of each window's cells on the map. `where` [n, p, q, channels], dense, receives the index of the
// first maximum in row-major order, for the backward pass; null in inference.
// Bytes: (x + y) * bytes_of(type) + y * index bytes, where x and y are element counts.
struct MaxPooling {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  In x = {};
  Out y = {};
  void* where = nullptr;
};
void max_pooling(const MaxPooling& pooling, cudaStream_t stream);

// dx = add + the sum of dy over the windows whose maximum the cell was. Every element of dx is computed from the
// windows that contain it, in row-major order, so no atomics are needed. Reading `where` costs less than recomputing
// the maxima from x. add may be null, and may be dx.
// Bytes: (x, or 2 x with add, + y) * bytes_of(type) + y * index bytes.
struct MaxPoolingBackward {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  In dy = {}, add = {};
  const void* where = nullptr;
  Out dx = {};
};
void max_pooling_backward(const MaxPoolingBackward& backward, cudaStream_t stream);

// The divisor of the sum over a window's cells on the map.
enum class Divide { kByPadded, kByKernel, kByReal, kNot };  // as in graph::Pooling::Divisor; kNot: there is no divisor

// y = the sum of each window's cells on the map, row by row, / its divisor.   Bytes: (x + y) * bytes_of(type).
struct AveragePooling {
  Type type = Type::kFloat32;
  PoolingShape shape = {};
  Divide divide = Divide::kByPadded;
  In x = {};
  Out y = {};
};
void average_pooling(const AveragePooling& pooling, cudaStream_t stream);

// dx = add + the sum of dy / divisor over the windows that contain the cell. add may be null, and may be dx.
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
