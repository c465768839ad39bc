// Operators that move, add or scale numbers: Concat, Add, Flatten, Identity, Scale.
#pragma once

#include "exec/reference/spans.h"

namespace dtrain::exec::reference {

// y += factor x. A step of Add and of its backward pass; with y zero before, also Scale and the copy of Flatten and
// Identity. Does nothing if y is empty.
template <class T>
void add_to(In<T> x, Out<T> y, T factor = 1);

// One part of a Concat: copies the n rows of x into the rows of y, from element `offset` of each row on. `offset`
// counts elements of one image, channels * h * w.
template <class T>
void concat_forward(int64_t n, In<T> x, int64_t offset, Out<T> y);
template <class T>
void concat_backward(int64_t n, In<T> dy, int64_t offset, Out<T> dx);

}  // namespace dtrain::exec::reference
