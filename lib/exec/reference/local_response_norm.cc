#include "exec/reference/local_response_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtrain::exec::reference {

namespace {

using graph::LocalResponseNorm;

// Calls f(at) with the channels of one cell: at(c) is the position of channel c.
template <class F>
void for_each_cell(const Extent& e, const F& f) {
  for (int64_t n = 0; n < e.n; n++) {
    for (int64_t h = 0; h < e.h; h++) {
      for (int64_t w = 0; w < e.w; w++) f([&](int64_t c) { return e.at(n, c, h, w); });
    }
  }
}

// The sum of f(c) over the channels around `channel`.
template <class T, class F>
T sum_around(const LocalResponseNorm& op, int64_t channels, int64_t channel, const F& f) {
  const int64_t half = op.size / 2;
  T sum = 0;
  for (int64_t c = std::max<int64_t>(channel - half, 0); c <= std::min(channel + half, channels - 1); c++) sum += f(c);
  return sum;
}

// d, see graph::LocalResponseNorm.
template <class T, class At>
T divisor(const LocalResponseNorm& op, int64_t channels, int64_t channel, In<T> x, const At& at) {
  const T sum = sum_around<T>(op, channels, channel, [&](int64_t c) { return x[at(c)] * x[at(c)]; });
  return static_cast<T>(op.k) + static_cast<T>(op.alpha / static_cast<double>(op.size)) * sum;
}

}  // namespace

template <class T>
void local_response_norm_forward(const LocalResponseNorm& op, const Extent& e, In<T> x, Out<T> y) {
  for_each_cell(e, [&](const auto& at) {
    for (int64_t c = 0; c < e.c; c++) {
      y[at(c)] = x[at(c)] * std::pow(divisor<T>(op, e.c, c, x, at), static_cast<T>(-op.beta));
    }
  });
}

template <class T>
void local_response_norm_backward(const LocalResponseNorm& op, const Extent& e, In<T> x, In<T> dy, Out<T> dx) {
  if (dx.empty()) return;
  const auto beta = static_cast<T>(op.beta);
  const auto factor = static_cast<T>(2 * op.beta * op.alpha / static_cast<double>(op.size));
  std::vector<T> d(static_cast<size_t>(e.c));
  for_each_cell(e, [&](const auto& at) {
    for (int64_t c = 0; c < e.c; c++) d[static_cast<size_t>(c)] = divisor<T>(op, e.c, c, x, at);
    for (int64_t c = 0; c < e.c; c++) {
      const T sum = sum_around<T>(
          op, e.c, c, [&](int64_t o) { return dy[at(o)] * x[at(o)] * std::pow(d[static_cast<size_t>(o)], -beta - 1); });
      dx[at(c)] += dy[at(c)] * std::pow(d[static_cast<size_t>(c)], -beta) - factor * x[at(c)] * sum;
    }
  });
}

#define DT_INSTANTIATE(T)                                                                               \
  template void local_response_norm_forward<T>(const LocalResponseNorm&, const Extent&, In<T>, Out<T>); \
  template void local_response_norm_backward<T>(const LocalResponseNorm&, const Extent&, In<T>, In<T>, Out<T>);
DT_INSTANTIATE(float)
DT_INSTANTIATE(double)
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
