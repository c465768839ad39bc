#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

// p = softmax(x) in each of n rows; each row's maximum is subtracted first.
template <class T>
void softmax_forward(int64_t n, In<T> x, Out<T> p);
// labels [n]: whole numbers below the number of classes.
template <class T>
void softmax_backward(const graph::SoftmaxOutput& op, In<T> p, In<float> labels, Out<T> dx);

}  // namespace dtrain::exec::reference
