#include "exec/reference/softmax.h"

#include <algorithm>
#include <cmath>

namespace dtrain::exec::reference {

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

template void softmax_forward<float>(int64_t, In<float>, Out<float>);
template void softmax_forward<double>(int64_t, In<double>, Out<double>);
template void softmax_backward<float>(const graph::SoftmaxOutput&, In<float>, In<float>, Out<float>);
template void softmax_backward<double>(const graph::SoftmaxOutput&, In<double>, In<float>, Out<double>);

}  // namespace dtrain::exec::reference
