// Fully connected layers on top of OpenBLAS, and the softmax with its gradient. All matrices are row-major.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace dtrain::exec::cpu {

// x [rows, inputs]   w [outputs, inputs]   b [outputs]   y [rows, outputs]
struct DenseShape {
  int64_t rows = 0, inputs = 0, outputs = 0;
};

// Makes OpenBLAS map its buffer for each thread of the calling thread's team. To be called while compiling: otherwise
// OpenBLAS maps 128 MiB at a thread's first product, and if the process may not have them (ulimit -v), it retries
// forever. In that case this function throws std::bad_alloc.
void reserve_product_memory();

void dense_forward(const DenseShape& shape, const float* x, const float* w, const float* b, float* y);  // b may be null
void dense_backward_data(const DenseShape& shape, const float* dy, const float* w, float* dx);
void dense_backward_weights(const DenseShape& shape, const float* x, const float* dy, float* dw);
void dense_backward_bias(const DenseShape& shape, const float* dy, float* db);

// Sets p to the softmax of each row of x [rows, classes].
void softmax_forward(int64_t rows, int64_t classes, const float* x, float* p);
// Computes dx as defined for graph::SoftmaxOutput. labels [rows] are integers.
void softmax_backward(const graph::SoftmaxOutput& op, int64_t rows, int64_t classes, const float* p,
                      const float* labels, float* dx);

}  // namespace dtrain::exec::cpu
