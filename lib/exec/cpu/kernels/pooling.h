// Pooling in the layouts of layout.h, forward and backward, with the rounding and divisor rules of graph::Pooling.
#pragma once

#include <cstdint>

#include "exec/cpu/layout.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// The windows of one pooling node. Global pooling becomes a window as large as the map.
struct PoolingWindow {
  BlockedShape x, y;  // the input and the output; they have equal n, blocks and lanes
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  graph::Pooling::Divisor divisor = graph::Pooling::Divisor::kPadded;
  graph::Pooling::Kind kind = graph::Pooling::Kind::kAverage;
};
PoolingWindow resolve_window(const graph::Pooling& op, const BlockedShape& x, const BlockedShape& y);

// `where` [elements of y] holds the row-major position of each maximum within its window.
void max_pooling_forward(const PoolingWindow& window, const float* x, float* y, int32_t* where);
void max_pooling_backward(const PoolingWindow& window, const float* dy, const int32_t* where, float* dx);

// Average pooling. These functions also compute sum pooling, as an average with the divisor 1.
void average_pooling_forward(const PoolingWindow& window, const float* x, float* y);
void average_pooling_backward(const PoolingWindow& window, const float* dy, float* dx);

}  // namespace dtrain::exec::cpu
