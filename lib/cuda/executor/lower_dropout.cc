#include "cuda/executor/lower.h"
#include "cuda/kernels/dropout.h"
#include "exec/dropout.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

void emit_keep(Lowering& l, NodeId id, const exec::DropRule& rule, const Map& x, const Map& y) {
  const uint64_t* keys = l.pass_input().keys;
  l.program().kernel(id, keep_elements, {{x.value}, {y.value}, {in_place(x, y)}}, [=](const Addresses& at) {
    return KeepElements{.type = x.type,
                        .rows = x.rows(),
                        .channels = x.channels,
                        .positions = x.positions(),
                        .node = rule.node,
                        .threshold = rule.threshold,
                        .factor = rule.factor,
                        .keys = keys,
                        .x = at.in(x),
                        .y = at.out(y)};
  });
}

}  // namespace

// Drops elements in the input's storage order. The number of an element follows from its channel and position, as in a
// flattened map.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Dropout& op) {
  if (!l.training()) return lower_node(l, id, graph::Identity{});
  const exec::DropRule rule = exec::drop_rule(l.node(id), op);
  const Map x = l.input(id), y = l.make_output(id);
  emit_keep(l, id, rule, x, y);
  l.set_output(id, y);
  return [&l, id, rule] {
    const Map dy = l.gradient(id);
    const Map dx = l.program().like(dy);
    emit_keep(l, id, rule, dy, dx);
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace dtrain::cuda
