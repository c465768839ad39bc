#include "exec/reference/loops.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtrain::exec::reference {

namespace {

// The products of one weight along one output row: y[y + i] += w[w] * x[x + i * step] for i < count.
struct Row {
  size_t x, y, w, count, step;
};

// The first position q in an output row for which q * stride - pad + offset >= bound.
int64_t first_at_least(int64_t bound, int64_t stride, int64_t pad, int64_t offset) {
  return std::max<int64_t>(0, (bound + pad - offset + stride - 1) / stride);
}

// Calls visit(row) for all products, one weight after the other. The forward and both backward passes use this
// traversal. Cells of the padding are zero and skipped. It visits whole rows, because finding the indices of a single
// product takes longer than the multiplication: with rows, the tests of exec take a third of the time.
template <class Visit>
void for_each_row(const graph::Convolution& op, const Extent& xe, const Extent& ye, Visit&& visit) {
  const int64_t c_group = xe.c / op.groups, filters_group = op.filters / op.groups;
  const Extent we{op.filters, c_group, op.kernel_h, op.kernel_w};
  const auto visit_weight = [&](int64_t n, int64_t o, int64_t c, int64_t u, int64_t v) {
    const int64_t down = u * op.dilation_h, right = v * op.dilation_w;
    const int64_t q_begin = first_at_least(0, op.stride_w, op.pad_w, right);
    const int64_t q_end = std::min(ye.w, first_at_least(xe.w, op.stride_w, op.pad_w, right));
    if (q_begin >= q_end) return;
    for (int64_t p = 0; p < ye.h; p++) {
      const int64_t h = p * op.stride_h - op.pad_h + down;
      if (h < 0 || h >= xe.h) continue;
      const int64_t w = q_begin * op.stride_w - op.pad_w + right;
      visit(Row{xe.at(n, o / filters_group * c_group + c, h, w), ye.at(n, o, p, q_begin), we.at(o, c, u, v),
                static_cast<size_t>(q_end - q_begin), static_cast<size_t>(op.stride_w)});
    }
  };
  for (int64_t n = 0; n < ye.n; n++) {
    for (int64_t o = 0; o < ye.c; o++) {
      for (int64_t c = 0; c < c_group; c++) {
        for (int64_t u = 0; u < op.kernel_h; u++) {
          for (int64_t v = 0; v < op.kernel_w; v++) visit_weight(n, o, c, u, v);
        }
      }
    }
  }
}

}  // namespace

template <class T>
void convolution_forward(const graph::Convolution& op, const Extent& xe, In<T> x, In<T> w, In<T> b, const Extent& ye,
                         Out<T> y) {
  const auto positions = static_cast<size_t>(ye.h * ye.w);
  for (size_t i = 0; i < y.size(); i++) y[i] = b.empty() ? T{0} : b[i / positions % b.size()];
  for_each_row(op, xe, ye, [&](const Row& r) {
    for (size_t i = 0; i < r.count; i++) y[r.y + i] += w[r.w] * x[r.x + i * r.step];
  });
}

template <class T>
void convolution_backward_data(const graph::Convolution& op, const Extent& xe, In<T> w, const Extent& ye, In<T> dy,
                               Out<T> dx) {
  if (dx.empty()) return;
  for_each_row(op, xe, ye, [&](const Row& r) {
    for (size_t i = 0; i < r.count; i++) dx[r.x + i * r.step] += w[r.w] * dy[r.y + i];
  });
}

template <class T>
void convolution_backward_weights(const graph::Convolution& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy,
                                  Out<T> dw, Out<T> db) {
  std::fill(dw.begin(), dw.end(), T{0});
  std::fill(db.begin(), db.end(), T{0});
  for_each_row(op, xe, ye, [&](const Row& r) {
    for (size_t i = 0; i < r.count; i++) dw[r.w] += dy[r.y + i] * x[r.x + i * r.step];
  });
  if (db.empty()) return;
  const auto positions = static_cast<size_t>(ye.h * ye.w);
  for (size_t i = 0; i < dy.size(); i++) db[i / positions % db.size()] += dy[i];
}

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

namespace {

// Calls visit(i) for the elements of channel c.
template <class Visit>
void for_each_of_channel(const Extent& e, int64_t c, Visit&& visit) {
  for (int64_t n = 0; n < e.n; n++) {
    for (int64_t h = 0; h < e.h; h++) {
      for (int64_t w = 0; w < e.w; w++) visit(e.at(n, c, h, w));
    }
  }
}

template <class T>
void update(float& moving, T of_batch, double momentum) {
  moving =
      static_cast<float>(static_cast<T>(momentum) * static_cast<T>(moving) + static_cast<T>(1 - momentum) * of_batch);
}

}  // namespace

template <class T>
void batch_norm_training(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                         BatchStatistics<T> batch, Out<float> moving_mean, Out<float> moving_var, Out<T> y) {
  const T m = static_cast<T>(e.n * e.h * e.w);
  for (int64_t c = 0; c < e.c; c++) {
    const auto i = static_cast<size_t>(c);
    T sum = 0, squares = 0;
    for_each_of_channel(e, c, [&](size_t j) { sum += x[j]; });
    const T mean = sum / m;
    for_each_of_channel(e, c, [&](size_t j) { squares += (x[j] - mean) * (x[j] - mean); });
    const T variance = squares / m;
    const T inv_std = 1 / std::sqrt(variance + static_cast<T>(op.epsilon));
    const T scale = op.fix_gamma ? T{1} : gamma[i];
    for_each_of_channel(e, c, [&](size_t j) { y[j] = scale * ((x[j] - mean) * inv_std) + beta[i]; });
    batch.mean[i] = mean;
    batch.inv_std[i] = inv_std;
    update(moving_mean[i], mean, op.momentum);
    update(moving_var[i], variance, op.momentum);
  }
}

template <class T>
void batch_norm_inference(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                          In<float> moving_mean, In<float> moving_var, Out<T> y) {
  for (int64_t c = 0; c < e.c; c++) {
    const auto i = static_cast<size_t>(c);
    const T mean = static_cast<T>(moving_mean[i]);
    const T inv_std = 1 / std::sqrt(static_cast<T>(moving_var[i]) + static_cast<T>(op.epsilon));
    const T scale = op.fix_gamma ? T{1} : gamma[i];
    for_each_of_channel(e, c, [&](size_t j) { y[j] = scale * ((x[j] - mean) * inv_std) + beta[i]; });
  }
}

template <class T>
void batch_norm_training_globally(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                                  BatchStatistics<T> batch, In<float> moving_mean, In<float> moving_var, Out<T> y) {
  for (size_t i = 0; i < moving_mean.size(); i++) {
    batch.mean[i] = static_cast<T>(moving_mean[i]);
    batch.inv_std[i] = 1 / std::sqrt(static_cast<T>(moving_var[i]) + static_cast<T>(op.epsilon));
  }
  batch_norm_inference<T>(op, e, x, gamma, beta, moving_mean, moving_var, y);
}

template <class T>
void batch_norm_backward(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, BatchStatistics<T> batch,
                         In<T> dy, Out<T> dx, Out<T> dgamma, Out<T> dbeta) {
  const T m = static_cast<T>(e.n * e.h * e.w);
  for (int64_t c = 0; c < e.c; c++) {
    const auto i = static_cast<size_t>(c);
    const auto normal = [&](size_t j) { return (x[j] - batch.mean[i]) * batch.inv_std[i]; };
    T sum = 0, sum_normal = 0;
    for_each_of_channel(e, c, [&](size_t j) {
      sum += dy[j];
      sum_normal += dy[j] * normal(j);
    });
    dbeta[i] = sum;
    dgamma[i] = op.fix_gamma ? T{0} : sum_normal;
    if (dx.empty()) continue;
    const T scale = (op.fix_gamma ? T{1} : gamma[i]) * batch.inv_std[i];
    if (op.global_statistics) {
      for_each_of_channel(e, c, [&](size_t j) { dx[j] += scale * dy[j]; });
    } else {
      for_each_of_channel(e, c, [&](size_t j) { dx[j] += scale * (dy[j] - sum / m - normal(j) * sum_normal / m); });
    }
  }
}

namespace {

using Kind = graph::Activation::Kind;

template <class T>
T activate(Kind kind, T x) {
  switch (kind) {
    case Kind::kRelu: return x > 0 ? x : T{0};
    case Kind::kTanh: return std::tanh(x);
    case Kind::kSigmoid: return 1 / (1 + std::exp(-x));
    // log(1 + e^x) for any x. Computing it directly would overflow for large x, where the result is x itself.
    case Kind::kSoftrelu: return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    case Kind::kSoftsign: return x / (1 + std::abs(x));
  }
  return x;
}

template <class T>
T slope(Kind kind, T y) {
  switch (kind) {
    case Kind::kRelu: return y > 0 ? T{1} : T{0};
    case Kind::kTanh: return 1 - y * y;
    case Kind::kSigmoid: return y * (1 - y);
    case Kind::kSoftrelu: return -std::expm1(-y);
    case Kind::kSoftsign: return (1 - std::abs(y)) * (1 - std::abs(y));
  }
  return 1;
}

}  // namespace

template <class T>
void activation_forward(graph::Activation op, In<T> x, Out<T> y) {
  for (size_t i = 0; i < y.size(); i++) y[i] = activate(op.kind, x[i]);
}

template <class T>
void activation_backward(graph::Activation op, In<T> y, In<T> dy, Out<T> dx) {
  for (size_t i = 0; i < dx.size(); i++) dx[i] += dy[i] * slope(op.kind, y[i]);
}

namespace {

// The cells of one window that overlap the map, and the divisor of its sum.
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

namespace {

using graph::LocalResponseNorm;

// Calls f(at) for each cell, where at(c) is the position of the cell's channel c.
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

// The divisor d in the formula of graph::LocalResponseNorm.
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

template <class T>
void add_kept(const DropRule& rule, std::span<const uint64_t> keys, In<T> x, Out<T> y) {
  const size_t each = y.size() / keys.size();
  for (size_t i = 0; i < y.size(); i++) {
    const uint64_t key = drop_key(rule, keys[i / each]);
    if (!is_dropped(rule, key, i % each)) y[i] += x[i] * rule.factor;
  }
}

template <class T>
void softmax_forward(int64_t n, In<T> x, Out<T> p) {
  const size_t classes = x.size() / static_cast<size_t>(n);
  for (size_t begin = 0; begin < x.size(); begin += classes) {
    const In<T> row = x.subspan(begin, classes);
    const T largest = *std::max_element(row.begin(), row.end());
    T sum = 0;
    for (size_t k = 0; k < classes; k++) sum += p[begin + k] = std::exp(row[k] - largest);
    for (size_t k = 0; k < classes; k++) p[begin + k] /= sum;
  }
}

template <class T>
void softmax_backward(const graph::SoftmaxOutput& op, In<T> p, In<float> labels, Out<T> dx) {
  if (dx.empty()) return;
  const size_t classes = p.size() / labels.size();
  const T alpha = static_cast<T>(op.smooth_alpha);
  const T others = classes > 1 ? alpha / static_cast<T>(classes - 1) : T{0};
  const T factor = op.factor(static_cast<int64_t>(labels.size()));
  for (size_t n = 0; n < labels.size(); n++) {
    const auto label = static_cast<size_t>(labels[n]);
    for (size_t k = 0; k < classes; k++) {
      const T target = k == label ? 1 - alpha : others;
      dx[n * classes + k] += factor * (p[n * classes + k] - target);
    }
  }
}

#define DT_INSTANTIATE(T)                                                                                              \
  template void convolution_forward<T>(const graph::Convolution&, const Extent&, In<T>, In<T>, In<T>, const Extent&,   \
                                       Out<T>);                                                                        \
  template void convolution_backward_data<T>(const graph::Convolution&, const Extent&, In<T>, const Extent&, In<T>,    \
                                             Out<T>);                                                                  \
  template void convolution_backward_weights<T>(const graph::Convolution&, const Extent&, In<T>, const Extent&, In<T>, \
                                                Out<T>, Out<T>);                                                       \
  template void fully_connected_forward<T>(int64_t, In<T>, In<T>, In<T>, Out<T>);                                      \
  template void fully_connected_backward<T>(int64_t, In<T>, In<T>, In<T>, Out<T>, Out<T>, Out<T>);                     \
  template void batch_norm_training<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>,                    \
                                       BatchStatistics<T>, Out<float>, Out<float>, Out<T>);                            \
  template void batch_norm_inference<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>, In<float>,        \
                                        In<float>, Out<T>);                                                            \
  template void batch_norm_training_globally<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>,           \
                                                BatchStatistics<T>, In<float>, In<float>, Out<T>);                     \
  template void batch_norm_backward<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, BatchStatistics<T>,       \
                                       In<T>, Out<T>, Out<T>, Out<T>);                                                 \
  template void pooling_forward<T>(const graph::Pooling&, const Extent&, In<T>, const Extent&, Out<T>);                \
  template void pooling_backward<T>(const graph::Pooling&, const Extent&, In<T>, const Extent&, In<T>, Out<T>);        \
  template void local_response_norm_forward<T>(const LocalResponseNorm&, const Extent&, In<T>, Out<T>);                \
  template void local_response_norm_backward<T>(const LocalResponseNorm&, const Extent&, In<T>, In<T>, Out<T>);        \
  template void activation_forward<T>(graph::Activation, In<T>, Out<T>);                                               \
  template void activation_backward<T>(graph::Activation, In<T>, In<T>, Out<T>);                                       \
  template void add_to<T>(In<T>, Out<T>, T);                                                                           \
  template void concat_forward<T>(int64_t, In<T>, int64_t, Out<T>);                                                    \
  template void concat_backward<T>(int64_t, In<T>, int64_t, Out<T>);                                                   \
  template void add_kept<T>(const DropRule&, std::span<const uint64_t>, In<T>, Out<T>);                                \
  template void softmax_forward<T>(int64_t, In<T>, Out<T>);                                                            \
  template void softmax_backward<T>(const graph::SoftmaxOutput&, In<T>, In<float>, Out<T>)
DT_INSTANTIATE(float);
DT_INSTANTIATE(double);
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
