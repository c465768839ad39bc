#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/lower_sums.h"

namespace dtrain::exec::cpu {

using graph::NodeId;
using Kind = graph::Activation::Kind;

namespace {

dnnl::algorithm algorithm_of(Kind kind) {
  switch (kind) {
    case Kind::kRelu: return dnnl::algorithm::eltwise_relu;
    case Kind::kTanh: return dnnl::algorithm::eltwise_tanh;
    case Kind::kSigmoid: return dnnl::algorithm::eltwise_logistic;
    case Kind::kSoftrelu: return dnnl::algorithm::eltwise_soft_relu;
  }
  return dnnl::algorithm::undef;
}

}  // namespace

Lowering::EmitBackward lower_activation(Lowering& l, NodeId id, const graph::Activation& op) {
  if (l.fusions().computed_by[id] != Fusions::kNone) {
    l.set_output(id, l.input(id));
    return [] {};
  }
  const ValueId x = l.input(id);
  const auto pd = eltwise_forward(l.engine(), algorithm_of(op.kind), l.md(x));
  const ValueId y = l.program().tensor(l.md(x));
  l.program().primitive(id, "activation", dnnl::eltwise_forward(pd),
                        {in(DNNL_ARG_SRC, x), out(DNNL_ARG_DST, y),
                         out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))},
                        {x});
  l.set_output(id, y);
  return [&l, id, kind = op.kind, y] {
    const std::vector<ValueId> terms = l.gradient_terms(id, l.md(y));
    if (terms.empty()) return;
    l.contribute(l.input_node(id), emit_activation_backward(l.program(), id, kind, y, terms));
  };
}

}  // namespace dtrain::exec::cpu
