#include "exec/reference/activation.h"

#include <algorithm>
#include <cmath>

namespace dtrain::exec::reference {

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

template void activation_forward<float>(graph::Activation, In<float>, Out<float>);
template void activation_forward<double>(graph::Activation, In<double>, Out<double>);
template void activation_backward<float>(graph::Activation, In<float>, In<float>, Out<float>);
template void activation_backward<double>(graph::Activation, In<double>, In<double>, Out<double>);

}  // namespace dtrain::exec::reference
