#include "base/error.h"
#include "exec/cpu/convolution.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"

namespace dtrain::exec::cpu {

using graph::Convolution;
using graph::NodeId;
using Forward = dnnl::convolution_forward::primitive_desc;

namespace {

struct ConvolutionLayer {
  NodeId id;
  ConvolutionSpec spec;  // the convolution with all layouts left open, so that oneDNN may choose them
  ConvolutionChoice choice;
  bool bias;
  Dims weight_dims, bias_dims;
  ValueId x;
};

template <class Pd>
ValueId scratchpad(Lowering& l, const Pd& pd) {
  return l.program().scratchpad(pd.scratchpad_desc());
}

ValueId weights_as(Lowering& l, const ConvolutionLayer& layer, const Md& layout) {
  return l.program().converted(layer.id, l.weight(layer.id, Convolution::kWeight, layer.weight_dims), layout);
}

Forward emit_forward(Lowering& l, const ConvolutionLayer& layer) {
  Program& program = l.program();
  Forward pd = with_algorithm(layer.spec, layer.choice,
                              [&](const ConvolutionSpec& spec) { return convolution_forward(l.engine(), spec); });
  DT_CHECK(pd, "oneDNN has no convolution for node '{}'", l.node(layer.id).name);
  const ValueId y = program.tensor(pd.dst_desc());
  std::vector<Arg> args{in(DNNL_ARG_SRC, program.converted(layer.id, layer.x, pd.src_desc())),
                        in(DNNL_ARG_WEIGHTS, weights_as(l, layer, pd.weights_desc())), out(DNNL_ARG_DST, y),
                        out(DNNL_ARG_SCRATCHPAD, scratchpad(l, pd))};
  if (layer.bias) args.push_back(in(DNNL_ARG_BIAS, l.weight(layer.id, Convolution::kBias, layer.bias_dims)));
  program.primitive(layer.id, "convolution", dnnl::convolution_forward(pd), std::move(args));
  l.set_output(layer.id, y);
  return pd;
}

void emit_backward_weights(Lowering& l, const ConvolutionLayer& layer, const Forward& forward, ValueId dy) {
  Program& program = l.program();
  const auto pd = with_algorithm(layer.spec, layer.choice, [&](const ConvolutionSpec& spec) {
    return convolution_backward_weights(l.engine(), spec, forward);
  });
  DT_CHECK(pd, "oneDNN has no weight gradient for node '{}'", l.node(layer.id).name);
  const ValueId dw = l.gradient_of_weight(layer.id, Convolution::kWeight, layer.weight_dims);
  const ValueId staged = program.staging(dw, pd.diff_weights_desc());
  std::vector<Arg> args{in(DNNL_ARG_SRC, program.converted(layer.id, layer.x, pd.src_desc())),
                        in(DNNL_ARG_DIFF_DST, program.converted(layer.id, dy, pd.diff_dst_desc())),
                        out(DNNL_ARG_DIFF_WEIGHTS, staged), out(DNNL_ARG_SCRATCHPAD, scratchpad(l, pd))};
  if (layer.bias)
    args.push_back(out(DNNL_ARG_DIFF_BIAS, l.gradient_of_weight(layer.id, Convolution::kBias, layer.bias_dims)));
  program.primitive(layer.id, "convolution backward weights", dnnl::convolution_backward_weights(pd), std::move(args));
  program.finish_write(layer.id, staged, dw);
}

void emit_backward_data(Lowering& l, const ConvolutionLayer& layer, const Forward& forward, ValueId dy) {
  Program& program = l.program();
  const auto pd = with_algorithm(layer.spec, layer.choice, [&](const ConvolutionSpec& spec) {
    return convolution_backward_data(l.engine(), spec, forward);
  });
  DT_CHECK(pd, "oneDNN has no input gradient for node '{}'", l.node(layer.id).name);
  const ValueId dx = program.tensor(pd.diff_src_desc());
  program.primitive(layer.id, "convolution backward data", dnnl::convolution_backward_data(pd),
                    {in(DNNL_ARG_DIFF_DST, program.converted(layer.id, dy, pd.diff_dst_desc())),
                     in(DNNL_ARG_WEIGHTS, weights_as(l, layer, pd.weights_desc())), out(DNNL_ARG_DIFF_SRC, dx),
                     out(DNNL_ARG_SCRATCHPAD, scratchpad(l, pd))});
  l.contribute(l.input_node(layer.id), dx);
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Convolution& op) {
  const Dims x = l.dims(l.input_node(id));
  ConvolutionLayer layer{.id = id,
                         .spec = open_convolution(op, x, l.dims(id)),
                         .choice = {.winograd = l.options().winograd && winograd_fits(op, x[1]),
                                    .channels_last = channels_last_fits(op, x[1])},
                         .bias = op.bias,
                         .weight_dims = weight_dims(op, x[1]),
                         .bias_dims = {op.filters},
                         .x = l.input(id)};
  layer.spec.relu = l.computed_node(id) != id;
  const Forward forward = emit_forward(l, layer);
  return [&l, layer, forward] {
    const ValueId dy = l.gradient(layer.id, forward.dst_desc());
    emit_backward_weights(l, layer, forward, dy);
    if (l.wants_gradient(l.input_node(layer.id))) emit_backward_data(l, layer, forward, dy);
  };
}

}  // namespace dtrain::exec::cpu
