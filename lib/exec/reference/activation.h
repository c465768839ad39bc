#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

template <class T>
void activation_forward(graph::Activation op, In<T> x, Out<T> y);
// By the output y, as graph::Activation says.
template <class T>
void activation_backward(graph::Activation op, In<T> y, In<T> dy, Out<T> dx);

}  // namespace dtrain::exec::reference
