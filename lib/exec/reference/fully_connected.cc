#include "exec/reference/fully_connected.h"

#include <algorithm>

namespace dtrain::exec::reference {

template <class T>
void fully_connected_forward(int64_t n, In<T> x, In<T> w, In<T> b, Out<T> y) {
  const size_t rows = static_cast<size_t>(n), inputs = x.size() / rows, outputs = y.size() / rows;
  for (size_t r = 0; r < rows; r++) {
    for (size_t o = 0; o < outputs; o++) {
      T sum = b.empty() ? T{0} : b[o];
      for (size_t i = 0; i < inputs; i++) sum += x[r * inputs + i] * w[o * inputs + i];
      y[r * outputs + o] = sum;
    }
  }
}

template <class T>
void fully_connected_backward(int64_t n, In<T> x, In<T> w, In<T> dy, Out<T> dx, Out<T> dw, Out<T> db) {
  const size_t rows = static_cast<size_t>(n), inputs = x.size() / rows, outputs = dy.size() / rows;
  std::fill(dw.begin(), dw.end(), T{0});
  std::fill(db.begin(), db.end(), T{0});
  for (size_t r = 0; r < rows; r++) {
    for (size_t o = 0; o < outputs; o++) {
      const T d = dy[r * outputs + o];
      for (size_t i = 0; i < inputs; i++) dw[o * inputs + i] += d * x[r * inputs + i];
      if (!db.empty()) db[o] += d;
      if (dx.empty()) continue;
      for (size_t i = 0; i < inputs; i++) dx[r * inputs + i] += d * w[o * inputs + i];
    }
  }
}

#define DT_INSTANTIATE(T)                                                         \
  template void fully_connected_forward<T>(int64_t, In<T>, In<T>, In<T>, Out<T>); \
  template void fully_connected_backward<T>(int64_t, In<T>, In<T>, In<T>, Out<T>, Out<T>, Out<T>);
DT_INSTANTIATE(float)
DT_INSTANTIATE(double)
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
