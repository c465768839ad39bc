#include "exec/reference/batch_norm.h"

#include <cmath>

namespace dtrain::exec::reference {

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

#define DT_INSTANTIATE(T)                                                                                        \
  template void batch_norm_training<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>,              \
                                       BatchStatistics<T>, Out<float>, Out<float>, Out<T>);                      \
  template void batch_norm_inference<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>, In<float>,  \
                                        In<float>, Out<T>);                                                      \
  template void batch_norm_training_globally<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, In<T>,     \
                                                BatchStatistics<T>, In<float>, In<float>, Out<T>);               \
  template void batch_norm_backward<T>(const graph::BatchNorm&, const Extent&, In<T>, In<T>, BatchStatistics<T>, \
                                       In<T>, Out<T>, Out<T>, Out<T>);
DT_INSTANTIATE(float)
DT_INSTANTIATE(double)
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
