// Sums, scaling and gradients of activations over whole tensors of one layout. In all functions the result may
// overwrite one of the sources.
#pragma once

#include <cstdint>

#include "exec/cpu/layout.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

constexpr int kSourcesMax = 8;

// y = a + b, on the calling thread alone.
void add_pair(const float* a, const float* b, float* y, int64_t n);

// y = the sum of `count` sources, added in their order; 1 <= count <= kSourcesMax.
void sum_sources(const float* const* sources, int count, float* y, int64_t n);

// dx = dy * derivative(y), where dy is the sum of `count` sources and y the activation's output (graph::Activation).
void activation_backward(graph::Activation::Kind kind, const float* y, const float* const* sources, int count,
                         float* dx, int64_t n);

// y = x / (1 + |x|).
void softsign(const float* x, float* y, int64_t n);

// y = max(the sum of `count` sources, 0).
void sum_relu(const float* const* sources, int count, float* y, int64_t n);

// y = factor * (the sum of `count` sources).
void scale_sum(const float* const* sources, int count, float factor, float* y, int64_t n);

void fill_zero(float* y, int64_t n);

}  // namespace dtrain::exec::cpu
