#include "exec/reference/pooling.h"

#include <algorithm>

namespace dtrain::exec::reference {

namespace {

// The cells of one window that lie on the map, and the divisor of its sum.
struct Window {
  int64_t h_begin, h_end, w_begin, w_end;
  int64_t divisor;
};

Window window_at(const graph::Pooling& op, const Extent& xe, int64_t p, int64_t q) {
  using Kind = graph::Pooling::Kind;
  using Divisor = graph::Pooling::Divisor;
  if (op.global) return {0, xe.h, 0, xe.w, op.kind == Kind::kSum ? 1 : xe.h * xe.w};
  const int64_t h = p * op.stride_h - op.pad_h, w = q * op.stride_w - op.pad_w;
  const int64_t h_padded = std::min(h + op.kernel_h, xe.h + op.pad_h),
                w_padded = std::min(w + op.kernel_w, xe.w + op.pad_w);
  Window window{std::max<int64_t>(h, 0), std::min(h_padded, xe.h), std::max<int64_t>(w, 0), std::min(w_padded, xe.w),
                1};
  if (op.kind == Kind::kSum) return window;
  switch (op.divisor) {
    case Divisor::kPadded: window.divisor = (h_padded - h) * (w_padded - w); break;
    case Divisor::kKernel: window.divisor = op.kernel_h * op.kernel_w; break;
    case Divisor::kReal: window.divisor = (window.h_end - window.h_begin) * (window.w_end - window.w_begin); break;
  }
  return window;
}

template <class Visit>
void for_each_window(const graph::Pooling& op, const Extent& xe, const Extent& ye, Visit&& visit) {
  for (int64_t n = 0; n < ye.n; n++) {
    for (int64_t c = 0; c < ye.c; c++) {
      for (int64_t p = 0; p < ye.h; p++) {
        for (int64_t q = 0; q < ye.w; q++) visit(window_at(op, xe, p, q), n, c, ye.at(n, c, p, q));
      }
    }
  }
}

// Calls visit(i) for the window's cells in row-major order.
template <class Visit>
void for_each_cell(const Window& window, const Extent& xe, int64_t n, int64_t c, Visit&& visit) {
  for (int64_t h = window.h_begin; h < window.h_end; h++) {
    for (int64_t w = window.w_begin; w < window.w_end; w++) visit(xe.at(n, c, h, w));
  }
}

template <class T>
size_t first_maximum(const Window& window, const Extent& xe, In<T> x, int64_t n, int64_t c) {
  size_t best = xe.at(n, c, window.h_begin, window.w_begin);
  for_each_cell(window, xe, n, c, [&](size_t i) {
    if (x[i] > x[best]) best = i;
  });
  return best;
}

}  // namespace

template <class T>
void pooling_forward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, Out<T> y) {
  const bool maximum = op.kind == graph::Pooling::Kind::kMax;
  for_each_window(op, xe, ye, [&](const Window& window, int64_t n, int64_t c, size_t yi) {
    if (maximum) {
      y[yi] = x[first_maximum(window, xe, x, n, c)];
      return;
    }
    T sum = 0;
    for_each_cell(window, xe, n, c, [&](size_t i) { sum += x[i]; });
    y[yi] = sum / static_cast<T>(window.divisor);
  });
}

template <class T>
void pooling_backward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy, Out<T> dx) {
  if (dx.empty()) return;
  const bool maximum = op.kind == graph::Pooling::Kind::kMax;
  for_each_window(op, xe, ye, [&](const Window& window, int64_t n, int64_t c, size_t yi) {
    if (maximum) {
      dx[first_maximum(window, xe, x, n, c)] += dy[yi];
      return;
    }
    const T share = dy[yi] / static_cast<T>(window.divisor);
    for_each_cell(window, xe, n, c, [&](size_t i) { dx[i] += share; });
  });
}

#define DT_INSTANTIATE(T)                                                                               \
  template void pooling_forward<T>(const graph::Pooling&, const Extent&, In<T>, const Extent&, Out<T>); \
  template void pooling_backward<T>(const graph::Pooling&, const Extent&, In<T>, const Extent&, In<T>, Out<T>);
DT_INSTANTIATE(float)
DT_INSTANTIATE(double)
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
