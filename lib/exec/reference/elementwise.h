// Operators that move numbers, add or scale them: Concat, Add, Flatten, Identity, Scale.
#pragma once

#include "exec/reference/spans.h"

namespace dtrain::exec::reference {

// y += factor x: a step of Add and of its backward; with y zero before, Scale, and the copy of Flatten and Identity.
// Nothing if y is empty.
template <class T>
void add_to(In<T> x, Out<T> y, T factor = 1);

// Part of a Concat: the n rows of x go into the rows of y, from element `offset` of each on; offset in elements of one
// image, channels * h * w.
template <class T>
void concat_forward(int64_t n, In<T> x, int64_t offset, Out<T> y);
template <class T>
void concat_backward(int64_t n, In<T> dy, int64_t offset, Out<T> dx);

}  // namespace dtrain::exec::reference
