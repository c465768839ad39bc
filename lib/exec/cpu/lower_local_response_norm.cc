#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

namespace {

// The input in the layout that the operator needs. oneDNN has fast code for blocked channels and a size of 5 channels,
// which all known networks use. With other sizes that code may crash (oneDNN 2.6, 1 channel), so they use oneDNN's
// plain loops.
ValueId input_for(Lowering& l, NodeId id, const graph::LocalResponseNorm& op) {
  constexpr int64_t kFastSize = 5;
  if (op.size == kFastSize) return l.blocked_input(id);
  return l.program().converted(id, l.input(id), plain_md(l.dims(id)));
}

}  // namespace

// Lowers the operator. The workspace holds what oneDNN's backward pass needs; its size is 0 for implementations that
// need nothing.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::LocalResponseNorm& op) {
  const ValueId x = input_for(l, id, op);
  const Md layout = l.md(x);
  const auto forward = response_norm_forward(l.engine(), l.training(), layout, op);
  const ValueId y = l.program().tensor(layout);
  const bool keeps = l.training() && forward.workspace_desc().get_size() > 0;
  const ValueId workspace = keeps ? l.program().tensor(forward.workspace_desc()) : kNoValue;
  std::vector<Arg> args = {in(DNNL_ARG_SRC, x), out(DNNL_ARG_DST, y),
                           out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(forward.scratchpad_desc()))};
  if (keeps) args.push_back(out(DNNL_ARG_WORKSPACE, workspace));
  l.program().primitive(id, "local response norm", dnnl::lrn_forward(forward), std::move(args));
  l.set_output(id, y);
  return [&l, id, op, x, layout, forward, keeps, workspace] {
    const ValueId dy = l.gradient(id, layout);
    const auto backward = response_norm_backward(l.engine(), layout, op, forward);
    const ValueId dx = l.program().tensor(layout);
    std::vector<Arg> backward_args = {in(DNNL_ARG_SRC, x), in(DNNL_ARG_DIFF_DST, dy), out(DNNL_ARG_DIFF_SRC, dx),
                                      out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(backward.scratchpad_desc()))};
    if (keeps) backward_args.push_back(in(DNNL_ARG_WORKSPACE, workspace));
    l.program().primitive(id, "local response norm backward", dnnl::lrn_backward(backward), std::move(backward_args));
    l.contribute(l.input_node(id), dx);
  };
}

}  // namespace dtrain::exec::cpu
