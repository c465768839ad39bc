#pragma once

#include "exec/reference/spans.h"

namespace dtrain::exec::reference {

// y = x W' + b for n rows. x [n, inputs]   w [outputs, inputs]   b [outputs] or empty   y [n, outputs]
template <class T>
void fully_connected_forward(int64_t n, In<T> x, In<T> w, In<T> b, Out<T> y);
template <class T>
void fully_connected_backward(int64_t n, In<T> x, In<T> w, In<T> dy, Out<T> dx, Out<T> dw, Out<T> db);

}  // namespace dtrain::exec::reference
