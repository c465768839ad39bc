#include "exec/cpu/kernels/pooling.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/simd.h"
#include "exec/cpu/parallel.h"

// The plane functions are inlined into their DT_MULTI_ISA callers, so that each variant is compiled for its processor.
#define DT_INLINE __attribute__((always_inline)) inline

namespace dtrain::exec::cpu {

namespace {

constexpr int32_t kNowhere = -1;  // the position of the maximum of a window that covered only padding

// The part of a window that overlaps the feature map, along one axis: cells begin .. end - 1 of the kernel. Cell 0 is
// at position `origin` of the map.
struct Span {
  int64_t origin, begin, end;
};
DT_INLINE Span span_of(int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t extent) {
  const int64_t origin = out * stride - pad;
  return {origin, std::max<int64_t>(0, -origin), std::min(kernel, extent - origin)};
}

// The functions below take the number of lanes as a template argument if it is a constant, so that a window's result
// stays in registers. kLanes = 0 means that the number is known only at run time.
template <int kLanes>
DT_INLINE int64_t lanes_of(const PoolingWindow& p) {
  return kLanes > 0 ? kLanes : p.x.lanes;
}

DT_INLINE void take_larger(const float* x, int32_t cell, float* best, int32_t* at, int64_t lanes) {
  for (int64_t l = 0; l < lanes; l++) {
    at[l] = x[l] > best[l] ? cell : at[l];
    best[l] = x[l] > best[l] ? x[l] : best[l];
  }
}

template <int kLanes>
DT_INLINE void max_window(const PoolingWindow& p, const Span& rows, const Span& columns, const float* x, float* best,
                          int32_t* at) {
  const int64_t lanes = lanes_of<kLanes>(p);
  if (rows.begin >= rows.end || columns.begin >= columns.end) {
    for (int64_t l = 0; l < lanes; l++) best[l] = 0, at[l] = kNowhere;
    return;
  }
  const float* corner = x + ((rows.origin + rows.begin) * p.x.w + columns.origin + columns.begin) * lanes;
  const auto first = static_cast<int32_t>(rows.begin * p.kernel_w + columns.begin);
  for (int64_t l = 0; l < lanes; l++) best[l] = corner[l], at[l] = first;
  for (int64_t u = rows.begin; u < rows.end; u++) {
    const float* row = x + ((rows.origin + u) * p.x.w + columns.origin) * lanes;
    for (int64_t v = columns.begin; v < columns.end; v++) {
      take_larger(row + v * lanes, static_cast<int32_t>(u * p.kernel_w + v), best, at, lanes);
    }
  }
}

template <int kLanes>
DT_INLINE void max_plane(const PoolingWindow& p, const float* x, float* y, int32_t* where) {
  const int64_t lanes = lanes_of<kLanes>(p);
  for (int64_t i = 0; i < p.y.h; i++) {
    const Span rows = span_of(i, p.kernel_h, p.stride_h, p.pad_h, p.x.h);
    for (int64_t j = 0; j < p.y.w; j++, y += lanes, where += lanes) {
      const Span columns = span_of(j, p.kernel_w, p.stride_w, p.pad_w, p.x.w);
      if constexpr (kLanes > 0) {
        float best[kLanes];
        int32_t at[kLanes];
        max_window<kLanes>(p, rows, columns, x, best, at);
        for (int l = 0; l < kLanes; l++) y[l] = best[l], where[l] = at[l];
      } else {
        max_window<kLanes>(p, rows, columns, x, y, where);
      }
    }
  }
}

template <int kLanes>
DT_INLINE void max_plane_backward(const PoolingWindow& p, const float* dy, const int32_t* where, float* dx) {
  const int64_t lanes = lanes_of<kLanes>(p);
  std::memset(dx, 0, static_cast<size_t>(p.x.plane_elements()) * sizeof(float));
  for (int64_t i = 0; i < p.y.h; i++) {
    const Span rows = span_of(i, p.kernel_h, p.stride_h, p.pad_h, p.x.h);
    for (int64_t j = 0; j < p.y.w; j++, dy += lanes, where += lanes) {
      const Span columns = span_of(j, p.kernel_w, p.stride_w, p.pad_w, p.x.w);
      for (int64_t u = rows.begin; u < rows.end; u++) {
        float* row = dx + ((rows.origin + u) * p.x.w + columns.origin) * lanes;
        for (int64_t v = columns.begin; v < columns.end; v++) {
          const auto cell = static_cast<int32_t>(u * p.kernel_w + v);
          float* to = row + v * lanes;
          // This loop touches every cell of the window, but in whole registers. That is faster than writing each lane
          // only to the cell of its maximum.
          for (int64_t l = 0; l < lanes; l++) to[l] += where[l] == cell ? dy[l] : 0.0f;
        }
      }
    }
  }
}

int64_t divisor_of(const PoolingWindow& p, int64_t i, int64_t j) {
  using Divisor = graph::Pooling::Divisor;
  if (p.kind == graph::Pooling::Kind::kSum) return 1;
  if (p.divisor == Divisor::kKernel) return p.kernel_h * p.kernel_w;
  const int64_t top = i * p.stride_h - p.pad_h, left = j * p.stride_w - p.pad_w;
  if (p.divisor == Divisor::kReal) {
    const Span rows = span_of(i, p.kernel_h, p.stride_h, p.pad_h, p.x.h);
    const Span columns = span_of(j, p.kernel_w, p.stride_w, p.pad_w, p.x.w);
    return (rows.end - rows.begin) * (columns.end - columns.begin);
  }
  return (std::min(top + p.kernel_h, p.x.h + p.pad_h) - top) * (std::min(left + p.kernel_w, p.x.w + p.pad_w) - left);
}

template <int kLanes>
DT_INLINE void average_window(const PoolingWindow& p, const Span& rows, const Span& columns, float divisor,
                              const float* x, float* sum) {
  const int64_t lanes = lanes_of<kLanes>(p);
  for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
  for (int64_t u = rows.begin; u < rows.end; u++) {
    const float* row = x + ((rows.origin + u) * p.x.w + columns.origin) * lanes;
    for (int64_t v = columns.begin; v < columns.end; v++) {
      for (int64_t l = 0; l < lanes; l++) sum[l] += row[v * lanes + l];
    }
  }
  for (int64_t l = 0; l < lanes; l++) sum[l] /= divisor;
}

template <int kLanes>
DT_INLINE void average_plane(const PoolingWindow& p, const float* x, float* y) {
  const int64_t lanes = lanes_of<kLanes>(p);
  for (int64_t i = 0; i < p.y.h; i++) {
    const Span rows = span_of(i, p.kernel_h, p.stride_h, p.pad_h, p.x.h);
    for (int64_t j = 0; j < p.y.w; j++, y += lanes) {
      const Span columns = span_of(j, p.kernel_w, p.stride_w, p.pad_w, p.x.w);
      const auto divisor = static_cast<float>(divisor_of(p, i, j));
      if constexpr (kLanes > 0) {
        float sum[kLanes];
        average_window<kLanes>(p, rows, columns, divisor, x, sum);
        for (int l = 0; l < kLanes; l++) y[l] = sum[l];
      } else {
        average_window<kLanes>(p, rows, columns, divisor, x, y);
      }
    }
  }
}

template <int kLanes>
DT_INLINE void average_plane_backward(const PoolingWindow& p, const float* dy, float* dx) {
  const int64_t lanes = lanes_of<kLanes>(p);
  std::memset(dx, 0, static_cast<size_t>(p.x.plane_elements()) * sizeof(float));
  for (int64_t i = 0; i < p.y.h; i++) {
    const Span rows = span_of(i, p.kernel_h, p.stride_h, p.pad_h, p.x.h);
    for (int64_t j = 0; j < p.y.w; j++, dy += lanes) {
      const Span columns = span_of(j, p.kernel_w, p.stride_w, p.pad_w, p.x.w);
      const auto divisor = static_cast<float>(divisor_of(p, i, j));
      for (int64_t u = rows.begin; u < rows.end; u++) {
        float* row = dx + ((rows.origin + u) * p.x.w + columns.origin) * lanes;
        for (int64_t v = columns.begin; v < columns.end; v++) {
          for (int64_t l = 0; l < lanes; l++) row[v * lanes + l] += dy[l] / divisor;
        }
      }
    }
  }
}

DT_MULTI_ISA void max_planes(const PoolingWindow& p, const float* x, float* y, int32_t* where, int64_t begin,
                             int64_t end) {
  const int64_t xs = p.x.plane_elements(), ys = p.y.plane_elements();
  for (int64_t i = begin; i < end; i++) {
    if (p.x.lanes == 16) max_plane<16>(p, x + i * xs, y + i * ys, where + i * ys);
    if (p.x.lanes == 8) max_plane<8>(p, x + i * xs, y + i * ys, where + i * ys);
    if (p.x.lanes != 16 && p.x.lanes != 8) max_plane<0>(p, x + i * xs, y + i * ys, where + i * ys);
  }
}

DT_MULTI_ISA void max_planes_backward(const PoolingWindow& p, const float* dy, const int32_t* where, float* dx,
                                      int64_t begin, int64_t end) {
  const int64_t xs = p.x.plane_elements(), ys = p.y.plane_elements();
  for (int64_t i = begin; i < end; i++) {
    if (p.x.lanes == 16) max_plane_backward<16>(p, dy + i * ys, where + i * ys, dx + i * xs);
    if (p.x.lanes == 8) max_plane_backward<8>(p, dy + i * ys, where + i * ys, dx + i * xs);
    if (p.x.lanes != 16 && p.x.lanes != 8) max_plane_backward<0>(p, dy + i * ys, where + i * ys, dx + i * xs);
  }
}

DT_MULTI_ISA void average_planes(const PoolingWindow& p, const float* x, float* y, int64_t begin, int64_t end) {
  const int64_t xs = p.x.plane_elements(), ys = p.y.plane_elements();
  for (int64_t i = begin; i < end; i++) {
    if (p.x.lanes == 16) average_plane<16>(p, x + i * xs, y + i * ys);
    if (p.x.lanes == 8) average_plane<8>(p, x + i * xs, y + i * ys);
    if (p.x.lanes != 16 && p.x.lanes != 8) average_plane<0>(p, x + i * xs, y + i * ys);
  }
}

DT_MULTI_ISA void average_planes_backward(const PoolingWindow& p, const float* dy, float* dx, int64_t begin,
                                          int64_t end) {
  const int64_t xs = p.x.plane_elements(), ys = p.y.plane_elements();
  for (int64_t i = begin; i < end; i++) {
    if (p.x.lanes == 16) average_plane_backward<16>(p, dy + i * ys, dx + i * xs);
    if (p.x.lanes == 8) average_plane_backward<8>(p, dy + i * ys, dx + i * xs);
    if (p.x.lanes != 16 && p.x.lanes != 8) average_plane_backward<0>(p, dy + i * ys, dx + i * xs);
  }
}

}  // namespace

PoolingWindow resolve_window(const graph::Pooling& op, const BlockedShape& x, const BlockedShape& y) {
  DT_CHECK(x.lanes == y.lanes && x.planes() == y.planes(),
           "the input and the output of a pooling must have the same layout");
  PoolingWindow window{.x = x, .y = y, .kernel_h = x.h, .kernel_w = x.w, .kind = op.kind};
  if (!op.global) {
    window = {x, y, op.kernel_h, op.kernel_w, op.stride_h, op.stride_w, op.pad_h, op.pad_w, op.divisor, op.kind};
  }
  return window;
}

void max_pooling_forward(const PoolingWindow& p, const float* x, float* y, int32_t* where) {
  parallel_shares(p.x.planes(), p.x.elements(),
                  [&](int64_t begin, int64_t end) { max_planes(p, x, y, where, begin, end); });
}

void max_pooling_backward(const PoolingWindow& p, const float* dy, const int32_t* where, float* dx) {
  parallel_shares(p.x.planes(), p.x.elements(),
                  [&](int64_t begin, int64_t end) { max_planes_backward(p, dy, where, dx, begin, end); });
}

void average_pooling_forward(const PoolingWindow& p, const float* x, float* y) {
  parallel_shares(p.x.planes(), p.x.elements(),
                  [&](int64_t begin, int64_t end) { average_planes(p, x, y, begin, end); });
}

void average_pooling_backward(const PoolingWindow& p, const float* dy, float* dx) {
  parallel_shares(p.x.planes(), p.x.elements(),
                  [&](int64_t begin, int64_t end) { average_planes_backward(p, dy, dx, begin, end); });
}

}  // namespace dtrain::exec::cpu
