#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

// Windows, divisors and ties: see graph::Pooling.
template <class T>
void pooling_forward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, Out<T> y);
template <class T>
void pooling_backward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy, Out<T> dx);

}  // namespace dtrain::exec::reference
