#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

// Shapes and formula: graph::Convolution. b is empty if the operator has no bias.
template <class T>
void convolution_forward(const graph::Convolution& op, const Extent& xe, In<T> x, In<T> w, In<T> b, const Extent& ye,
                         Out<T> y);
template <class T>
void convolution_backward_data(const graph::Convolution& op, const Extent& xe, In<T> w, const Extent& ye, In<T> dy,
                               Out<T> dx);
template <class T>
void convolution_backward_weights(const graph::Convolution& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy,
                                  Out<T> dw, Out<T> db);

}  // namespace dtrain::exec::reference
