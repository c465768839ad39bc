#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

// See graph::LocalResponseNorm.
template <class T>
void local_response_norm_forward(const graph::LocalResponseNorm& op, const Extent& e, In<T> x, Out<T> y);
template <class T>
void local_response_norm_backward(const graph::LocalResponseNorm& op, const Extent& e, In<T> x, In<T> dy, Out<T> dx);

}  // namespace dtrain::exec::reference
