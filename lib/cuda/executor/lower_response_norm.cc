#include "cuda/executor/lower.h"
#include "cuda/kernels/response_norm.h"

namespace dtrain::cuda {

using graph::NodeId;

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::LocalResponseNorm& op) {
  const Map x = l.input(id), y = l.make_output(id);
  const ResponseNormShape shape{.rows = x.rows(),
                                .channels = x.channels,
                                .size = op.size,
                                .alpha_each = static_cast<float>(op.alpha / static_cast<double>(op.size)),
                                .beta = static_cast<float>(op.beta),
                                .k = static_cast<float>(op.k)};
  const ValueId d = l.training() ? l.program().floats(shape.rows * shape.channels) : kNoValue;
  l.program().kernel(id, response_norm, {{x.value}, {y.value, d}}, [=](const Addresses& at) {
    return ResponseNorm{x.type, shape, at.in(x), at.at<float>(d), at.out(y)};
  });
  l.set_output(id, y);
  return [&l, id, shape, x, d] {
    const Map dy = l.gradient(id);
    const Map dx = l.program().like(x);
    l.program().kernel(id, response_norm_backward, {{x.value, dy.value, d}, {dx.value}}, [=](const Addresses& at) {
      return ResponseNormBackward{x.type, shape, at.in(x), at.in(dy), at.at<float>(d), at.out(dx)};
    });
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace dtrain::cuda
