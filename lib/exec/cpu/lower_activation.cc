#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/lower_sums.h"

namespace dtrain::exec::cpu {

using graph::NodeId;
using Kind = graph::Activation::Kind;

namespace {

// Returns `undef` if oneDNN does not have the function.
dnnl::algorithm algorithm_of(Kind kind) {
  switch (kind) {
    case Kind::kRelu: return dnnl::algorithm::eltwise_relu;
    case Kind::kTanh: return dnnl::algorithm::eltwise_tanh;
    case Kind::kSigmoid: return dnnl::algorithm::eltwise_logistic;
    case Kind::kSoftrelu: return dnnl::algorithm::eltwise_soft_relu;
    case Kind::kSoftsign: return dnnl::algorithm::undef;
  }
  return dnnl::algorithm::undef;
}

ValueId emit_forward(Lowering& l, NodeId id, Kind kind, ValueId x) {
  const dnnl::algorithm algorithm = algorithm_of(kind);
  const ValueId y = l.program().tensor(l.md(x));
  if (algorithm == dnnl::algorithm::undef) {
    const auto n = static_cast<int64_t>(l.md(x).get_size() / sizeof(float));
    l.program().kernel(id, "activation",
                       [n](void* const* p) { softsign(static_cast<const float*>(p[0]), static_cast<float*>(p[1]), n); },
                       {in(x), out(y)}, {x});
    return y;
  }
  const auto pd = eltwise_forward(l.engine(), algorithm, l.md(x));
  l.program().primitive(id, "activation", dnnl::eltwise_forward(pd),
                        {in(DNNL_ARG_SRC, x), out(DNNL_ARG_DST, y),
                         out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))},
                        {x});
  return y;
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Activation& op) {
  const ValueId x = l.input(id);
  const ValueId y = emit_forward(l, id, op.kind, x);
  l.set_output(id, y);
  return [&l, id, kind = op.kind, y] {
    const ValueId dx = emit_activation_backward(l.program(), id, kind, y, l.gradient_terms(id, l.md(y)));
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace dtrain::exec::cpu
