#include "exec/cpu/kernels/dense.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"

namespace dtrain::exec::cpu {

using graph::FullyConnected;
using graph::NodeId;

namespace {

struct DenseLayer {
  NodeId id;
  DenseShape shape;
  ValueId x, w, b;  // b: kNoValue if there is no bias
};

float* floats(void* pointer) {
  return static_cast<float*>(pointer);
}

ValueId weight_gradient(Lowering& l, const DenseLayer& layer) {
  return l.gradient_of_weight(layer.id, FullyConnected::kWeight, {layer.shape.outputs, layer.shape.inputs});
}
ValueId bias_gradient(Lowering& l, const DenseLayer& layer) {
  return l.gradient_of_weight(layer.id, FullyConnected::kBias, {layer.shape.outputs});
}
Md x_md(const DenseShape& s) {
  return plain_md({s.rows, s.inputs});
}
Md any_w_md(const DenseShape& s) {
  return any_md({s.outputs, s.inputs});
}
Md y_md(const DenseShape& s) {
  return plain_md({s.rows, s.outputs});
}

void contribute(Lowering& l, const DenseLayer& layer, ValueId dx) {
  const NodeId input = l.input_node(layer.id);
  l.contribute(input, l.program().alias(dx, plain_md(l.dims(input))));
}

// The code for small layers, which use OpenBLAS.
namespace blas {

ValueId emit_forward(Lowering& l, const DenseLayer& layer) {
  const ValueId y = l.program().tensor(y_md(layer.shape));
  const bool bias = layer.b != kNoValue;
  std::vector<Arg> args{out(y), in(layer.x), in(layer.w)};
  if (bias) args.push_back(in(layer.b));
  l.program().kernel(
      layer.id, "fully connected",
      [shape = layer.shape, bias](void* const* p) {
        dense_forward(shape, floats(p[1]), floats(p[2]), bias ? floats(p[3]) : nullptr, floats(p[0]));
      },
      std::move(args));
  return y;
}

void emit_backward_weights(Lowering& l, const DenseLayer& layer, ValueId dy) {
  l.program().kernel(layer.id, "fully connected backward weights",
                     [shape = layer.shape](void* const* p) {
                       dense_backward_weights(shape, floats(p[0]), floats(p[1]), floats(p[2]));
                     },
                     {in(layer.x), in(dy), out(weight_gradient(l, layer))});
  if (layer.b == kNoValue) return;
  l.program().kernel(layer.id, "bias gradient",
                     [shape = layer.shape](void* const* p) { dense_backward_bias(shape, floats(p[0]), floats(p[1])); },
                     {in(dy), out(bias_gradient(l, layer))});
}

void emit_backward_data(Lowering& l, const DenseLayer& layer, ValueId dy) {
  const ValueId dx = l.program().tensor(x_md(layer.shape));
  l.program().kernel(
      layer.id, "fully connected backward data",
      [shape = layer.shape](void* const* p) { dense_backward_data(shape, floats(p[0]), floats(p[1]), floats(p[2])); },
      {in(dy), in(layer.w), out(dx)});
  contribute(l, layer, dx);
}

}  // namespace blas

// The code for large layers, which use oneDNN with its own layout for the weights. With row-major weights, oneDNN would
// fall back to a matrix product that allocates memory on each call.
namespace onednn {

using Forward = dnnl::inner_product_forward::primitive_desc;

Md bias_md(const DenseLayer& layer) {
  return layer.b == kNoValue ? Md() : plain_md({layer.shape.outputs});
}

ValueId weights_as(Lowering& l, const DenseLayer& layer, const Md& layout) {
  return l.program().converted(layer.id, layer.w, layout);
}

Forward emit_forward(Lowering& l, const DenseLayer& layer, ValueId& y) {
  const DenseShape& s = layer.shape;
  Forward pd = inner_product_forward(l.engine(), x_md(s), any_w_md(s), bias_md(layer), y_md(s));
  y = l.program().tensor(y_md(s));
  std::vector<Arg> args{in(DNNL_ARG_SRC, layer.x), in(DNNL_ARG_WEIGHTS, weights_as(l, layer, pd.weights_desc())),
                        out(DNNL_ARG_DST, y), out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))};
  if (layer.b != kNoValue) args.push_back(in(DNNL_ARG_BIAS, layer.b));
  l.program().primitive(layer.id, "fully connected", dnnl::inner_product_forward(pd), std::move(args));
  return pd;
}

void emit_backward_weights(Lowering& l, const DenseLayer& layer, const Forward& forward, ValueId dy) {
  const DenseShape& s = layer.shape;
  const auto pd = inner_product_backward_weights(l.engine(), x_md(s), any_w_md(s), bias_md(layer), y_md(s), forward);
  const ValueId dw = weight_gradient(l, layer);
  const ValueId staged = l.program().staging(dw, pd.diff_weights_desc());
  std::vector<Arg> args{in(DNNL_ARG_SRC, layer.x), in(DNNL_ARG_DIFF_DST, dy), out(DNNL_ARG_DIFF_WEIGHTS, staged),
                        out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))};
  if (layer.b != kNoValue) args.push_back(out(DNNL_ARG_DIFF_BIAS, bias_gradient(l, layer)));
  l.program().primitive(layer.id, "fully connected backward weights", dnnl::inner_product_backward_weights(pd),
                        std::move(args));
  l.program().finish_write(layer.id, staged, dw);
}

void emit_backward_data(Lowering& l, const DenseLayer& layer, const Forward& forward, ValueId dy) {
  const DenseShape& s = layer.shape;
  const auto pd = inner_product_backward_data(l.engine(), x_md(s), any_w_md(s), y_md(s), forward);
  const ValueId dx = l.program().tensor(x_md(s));
  l.program().primitive(
      layer.id, "fully connected backward data", dnnl::inner_product_backward_data(pd),
      {in(DNNL_ARG_DIFF_DST, dy), in(DNNL_ARG_WEIGHTS, weights_as(l, layer, pd.weights_desc())),
       out(DNNL_ARG_DIFF_SRC, dx), out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))});
  contribute(l, layer, dx);
}

}  // namespace onednn

Lowering::EmitBackward lower_small(Lowering& l, const DenseLayer& layer) {
  l.set_uses_openblas();
  l.set_output(layer.id, blas::emit_forward(l, layer));
  return [&l, layer] {
    const ValueId dy = l.gradient(layer.id, y_md(layer.shape));
    blas::emit_backward_weights(l, layer, dy);
    if (l.wants_gradient(l.input_node(layer.id))) blas::emit_backward_data(l, layer, dy);
  };
}

Lowering::EmitBackward lower_large(Lowering& l, const DenseLayer& layer) {
  ValueId y = kNoValue;
  const onednn::Forward forward = onednn::emit_forward(l, layer, y);
  l.set_output(layer.id, y);
  return [&l, layer, forward] {
    const ValueId dy = l.gradient(layer.id, y_md(layer.shape));
    onednn::emit_backward_weights(l, layer, forward, dy);
    if (l.wants_gradient(l.input_node(layer.id))) onednn::emit_backward_data(l, layer, forward, dy);
  };
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::FullyConnected& op) {
  // The size of the weights from which on oneDNN is used instead of OpenBLAS. Measured with OpenBLAS 0.3.21 and oneDNN
  // 2.6.3 on 2 threads: forward, 64 x 500 -> 10 takes 6 us with OpenBLAS and 8 us with oneDNN; 64 x 800 -> 500 takes
  // 366 us and 235 us forward, 561 us and 270 us backward. Both are equally fast at about 64 outputs.
  constexpr int64_t kLargeWeight = 1 << 15;
  const ValueId x = flattened(l, id, l.input(id));
  const Dims dims = dims_of(l.md(x));
  const DenseShape shape{.rows = dims[0], .inputs = dims[1], .outputs = op.outputs};
  const DenseLayer layer{id, shape, x, l.weight(id, FullyConnected::kWeight, {shape.outputs, shape.inputs}),
                         l.weight(id, FullyConnected::kBias, {shape.outputs})};
  return shape.inputs * shape.outputs < kLargeWeight ? lower_small(l, layer) : lower_large(l, layer);
}

}  // namespace dtrain::exec::cpu
