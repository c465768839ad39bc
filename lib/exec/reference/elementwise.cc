#include "exec/reference/elementwise.h"

namespace dtrain::exec::reference {

template <class T>
void add_to(In<T> x, Out<T> y, T factor) {
  for (size_t i = 0; i < y.size(); i++) y[i] += factor * x[i];
}

template <class T>
void concat_forward(int64_t n, In<T> x, int64_t offset, Out<T> y) {
  const size_t rows = static_cast<size_t>(n), row_x = x.size() / rows, row_y = y.size() / rows;
  for (size_t i = 0; i < x.size(); i++) y[i / row_x * row_y + static_cast<size_t>(offset) + i % row_x] = x[i];
}

template <class T>
void concat_backward(int64_t n, In<T> dy, int64_t offset, Out<T> dx) {
  const size_t rows = static_cast<size_t>(n), row_x = dx.size() / rows, row_y = dy.size() / rows;
  for (size_t i = 0; i < dx.size(); i++) dx[i] += dy[i / row_x * row_y + static_cast<size_t>(offset) + i % row_x];
}

template void add_to<float>(In<float>, Out<float>, float);
template void add_to<double>(In<double>, Out<double>, double);
template void concat_forward<float>(int64_t, In<float>, int64_t, Out<float>);
template void concat_forward<double>(int64_t, In<double>, int64_t, Out<double>);
template void concat_backward<float>(int64_t, In<float>, int64_t, Out<float>);
template void concat_backward<double>(int64_t, In<double>, int64_t, Out<double>);

}  // namespace dtrain::exec::reference
