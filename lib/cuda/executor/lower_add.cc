#include "cuda/executor/lower_batch_norm.h"
#include "cuda/kernels/batch_norm.h"
#include "cuda/kernels/elementwise.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

// Returns all inputs in the form of the node's output.
std::vector<Map> inputs_as(Lowering& l, NodeId id, const Map& y) {
  std::vector<Map> inputs;
  for (size_t i = 0; i < l.node(id).data_inputs.size(); i++) {
    const Map& x = l.input(id, i);
    inputs.push_back(x.same_form(y) ? x : l.plain_input(id, i));
  }
  return inputs;
}

// Emits dy masked by the ReLU: dy where y > 0, else 0.
Map emit_relu_backward(Lowering& l, NodeId id, const Map& y, const Map& dy) {
  const Map dz = l.program().like(y);
  l.program().kernel(id, activate_backward, {{y.value, dy.value}, {dz.value}, {in_place(dy, dz)}},
                     [=](const Addresses& at) {
                       return ActivateBackward{.type = y.type,
                                               .rows = y.rows(),
                                               .channels = y.channels,
                                               .curve = Curve::kRelu,
                                               .y = at.in(y),
                                               .dy = at.in(dy),
                                               .add = {},
                                               .dx = at.out(dz)};
                     });
  return dz;
}

// A place for the bits that say where the ReLU passes a value, so that the backward pass need not read y. Absent in
// inference, or if the kernel cannot write them.
ValueId make_passed(Lowering& l, const Map& x, const Map& skip, const Map& y) {
  const bool wide = x.channels * bytes_of(x.type) % 16 == 0 && x.packed() && skip.packed() && y.packed();
  if (!l.training() || !wide) return kNoValue;
  return l.program().bytes(static_cast<size_t>(passed_bytes(x.type, x.rows(), x.channels)));
}

// Computes relu(norm + skip) in the normalization's last pass over memory.
Lowering::EmitBackward lower_with_norm(Lowering& l, NodeId id, NodeId relu) {
  const NodeId norm_id = l.fusions().norm_of[id];
  const size_t skip_index = l.input_node(id, 0) == norm_id ? 1 : 0;
  const Norm norm = l.norm_for_sum(norm_id);
  const NodeId skip_id = l.input_node(id, skip_index);
  const Map y = l.make_output(relu), skip = l.plain_input(id, skip_index);
  const ValueId passed = make_passed(l, norm.x, skip, y);
  emit_apply(l, norm, skip, true, y, passed);
  l.set_output(id, y);
  return [&l, norm, y = passed == kNoValue ? y : Map{}, passed, skip, skip_id, relu] {
    const Map dy = l.gradient(relu);
    const Map dskip = l.wants_gradient(skip_id) ? l.program().like(skip) : Map{};
    emit_norm_backward(l, norm, {.y = y, .dy = dy, .dskip = dskip, .passed = passed, .relu = true});
    if (dskip.exists()) l.contribute(skip_id, dskip, true);
  };
}

}  // namespace

// Computes the sum, in one pass with the ReLU if one follows. In the backward pass, the ReLU's mask is applied once,
// and the result goes to all inputs.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Add&) {
  const NodeId computed = l.computed_node(id);
  const bool fused = computed != id;
  if (l.fusions().norm_of[id] != Fusions::kNone) return lower_with_norm(l, id, computed);
  if (!l.output(id).exists()) {  // otherwise a convolution has already computed the sum
    const Map sum = l.make_output(computed);
    l.emit_sum(id, inputs_as(l, id, sum), sum, fused);
    l.set_output(id, sum);
  }
  const Map y = l.output(id);
  return [&l, id, computed, fused, y] {
    Map dy = l.gradient(computed);
    if (fused) dy = emit_relu_backward(l, id, y, dy);
    for (const NodeId input : l.node(id).data_inputs) l.contribute(input, dy);
  };
}

}  // namespace dtrain::cuda
