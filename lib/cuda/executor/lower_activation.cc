#include "cuda/executor/lower.h"
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

void emit_backward(Lowering& l, NodeId id, Curve curve, const Map& y) {
  const Map dy = l.gradient(id);
  const NodeId input = l.input_node(id);
  const Map add = l.take_term(input), dx = l.program().like(y);
  l.program().kernel(id, activate_backward,
                     {{y.value, dy.value, add.value}, {dx.value}, {in_place(add, dx), in_place(dy, dx)}},
                     [=](const Addresses& at) {
                       return ActivateBackward{.type = y.type,
                                               .rows = y.rows(),
                                               .channels = y.channels,
                                               .curve = curve,
                                               .y = at.in(y),
                                               .dy = at.in(dy),
                                               .add = at.in(add),
                                               .dx = at.out(dx)};
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
