#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

template <class T>
void activation_forward(graph::Activation op, In<T> x, Out<T> y);
// In terms of the output y, see graph::Activation.
template <class T>
void activation_backward(graph::Activation op, In<T> y, In<T> dy, Out<T> dx);

}  // namespace dtrain::exec::reference
