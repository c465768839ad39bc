#include "cuda/executor/lower.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/elementwise.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

Curve curve_of(graph::Activation::Kind kind) {
  switch (kind) {
    case graph::Activation::Kind::kRelu: return Curve::kRelu;
    case graph::Activation::Kind::kTanh: return Curve::kTanh;
    case graph::Activation::Kind::kSigmoid: return Curve::kSigmoid;
    case graph::Activation::Kind::kSoftrelu: return Curve::kSoftrelu;
    case graph::Activation::Kind::kSoftsign: return Curve::kSoftsign;
  }
  return Curve::kRelu;
}

bool moves_16_bytes(const Map& map) {
  const int64_t bytes = bytes_of(map.type);
  return map.channels * bytes % 16 == 0 && map.pitch * bytes % 16 == 0;
}

// The gradient of the bias of the layer before the activation, if it is to be computed together with the layer's
// gradient, which then need not be read again for it. With rows that cannot be moved 16 bytes at a time this would be
// slower, because without the bias a whole map without gaps is processed as one row.
ValueId bias_gradient_before(Lowering& l, NodeId input, const Map& dy, const Map& y) {
  return moves_16_bytes(y) && moves_16_bytes(dy) ? l.take_bias_gradient(input) : kNoValue;
}

void emit_backward(Lowering& l, NodeId id, Curve curve, const Map& y) {
  const Map dy = l.gradient(id);
  const NodeId input = l.input_node(id);
  const Map add = l.take_term(input), dx = l.program().like(y);
  const ValueId dbias = bias_gradient_before(l, input, dy, y);
  const auto workspace = static_cast<size_t>(bias_workspace_bytes(y.type, y.rows(), y.channels));
  const bool sums = dbias != kNoValue;
  const ValueId scratch = sums ? l.program().scratch(workspace) : kNoValue;
  const ValueId counters = sums ? l.program().counters(bias_counters(y.channels)) : kNoValue;
  l.program().kernel(id, activate_backward,
                     {{y.value, dy.value, add.value}, {dx.value, dbias}, {in_place(add, dx), in_place(dy, dx)}},
                     [=](const Addresses& at) {
                       return ActivateBackward{.type = y.type,
                                               .rows = y.rows(),
                                               .channels = y.channels,
                                               .curve = curve,
                                               .y = at.in(y),
                                               .dy = at.in(dy),
                                               .add = at.in(add),
                                               .dx = at.out(dx),
                                               .dbias = at.at<float>(dbias),
                                               .workspace = at.at(scratch),
                                               .counters = at.at<uint32_t>(counters)};
                     });
  l.contribute(input, dx, true);
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Activation& op) {
  const Map x = l.input(id), y = l.make_output(id);
  const Curve curve = curve_of(op.kind);
  l.program().kernel(id, activate, {{x.value}, {y.value}, {in_place(x, y)}}, [=](const Addresses& at) {
    return Activate{x.type, x.rows(), x.channels, curve, at.in(x), at.out(y)};
  });
  l.set_output(id, y);
  return [&l, id, curve, y] { emit_backward(l, id, curve, y); };
}

}  // namespace dtrain::cuda
