// Nodes that compute little or nothing: input, flatten, identity, scale, add, concat, softmax.
#include "exec/contract.h"
#include "exec/cpu/kernels/channels.h"
#include "exec/cpu/kernels/dense.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/lower_sums.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

// Copies the caller's data: the data is valid only during the forward pass, but the gradient of the first layer needs
// it again.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Input&) {
  const ValueId data = l.program().tensor(plain_md(l.dims(id)));
  const size_t input = l.input_of(id);
  const InputForm& form = l.options().inputs[input];
  const int64_t images = l.options().batch_size, each = element_count(form.shape);
  l.program().kernel(id, "copy of the images",
                     [&form, input, batch = l.batch(), images, each](void* const* p) {
                       parallel_shares(images, images * each, [&](int64_t begin, int64_t end) {
                         copy_floats(
                             batch->part(images, begin, end - begin).inputs[input], form,
                             {static_cast<float*>(p[0]) + begin * each, static_cast<size_t>((end - begin) * each)});
                       });
                     },
                     {out(data)});
  l.set_output(id, data);
  return [] {};
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Flatten&) {
  const ValueId flat = flattened(l, id, l.input(id));
  l.set_output(id, flat);
  return [&l, id, layout = l.md(flat)] {
    const NodeId input = l.input_node(id);
    l.contribute(input, l.program().alias(l.gradient(id, layout), plain_md(l.dims(input))));
  };
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Identity&) {
  l.set_output(id, l.input(id));
  return [&l, id] { l.contribute(l.input_node(id), l.gradient(id, l.md(l.input(id)))); };
}

// Computes the scaling as a separate pass, in place where possible. In a block of the network `cross`, this pass makes
// 2 of about 30 reads and writes of a feature map. In the backward pass, the same pass also sums the gradients from all
// readers.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Scale& op) {
  const Md layout = blocked_layout(l.md(l.input(id)));
  l.set_output(id, emit_scaled_sum(l.program(), id, {l.input(id)}, op.factor, layout));
  return [&l, id, layout, factor = op.factor] {
    const std::vector<ValueId> terms = l.gradient_terms(id, layout);
    l.contribute(l.input_node(id), emit_scaled_sum(l.program(), id, terms, factor, layout));
  };
}

// Adds the inputs, in one pass with the ReLU if one follows. The backward pass is fused too: the gradient is masked
// once, then passed to all inputs.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Add&) {
  const NodeId computed = l.computed_node(id);
  const bool fused = computed != id;
  const Md layout = blocked_layout(l.md(l.input(id)));
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < l.node(id).data_inputs.size(); i++) inputs.push_back(l.input(id, i));
  const ValueId y = fused ? emit_sum_relu(l.program(), id, inputs, layout) : emit_sum(l.program(), id, inputs, layout);
  l.set_output(id, y);
  return [&l, id, computed, fused, layout, y] {
    const ValueId dy = fused ? emit_activation_backward(l.program(), id, graph::Activation::Kind::kRelu, y,
                                                        l.gradient_terms(computed, layout))
                             : l.gradient(id, layout);
    for (const NodeId input : l.node(id).data_inputs) l.contribute(input, dy);
  };
}

namespace {

// The order of the first input if it has blocks of channels and every part but the last fills its blocks; otherwise
// row-major.
Order concat_order(Lowering& l, NodeId id) {
  std::vector<int64_t> channels;
  for (size_t i = 0; i < l.node(id).data_inputs.size(); i++) channels.push_back(dims_of(l.md(l.input(id, i)))[1]);
  const auto first = blocked_shape(l.md(l.input(id)));
  const bool blocks = first && first->order != Order::kChannelsLast && blocks_fit(channels, first->lanes);
  return blocks ? first->order : Order::kPlain;
}

// Computes the gradients of the parts with one kernel, which also sums the terms of the whole gradient.
void split_gradient(Lowering& l, NodeId id, const ConcatShape& shape) {
  const Order order = shape.whole.order;
  const std::vector<ValueId> terms = l.gradient_terms(id, md_in(order, l.dims(id)));
  const std::vector<NodeId>& inputs = l.node(id).data_inputs;
  std::vector<Arg> args;
  args.reserve(terms.size() + inputs.size());
  for (const ValueId term : terms) args.push_back(in(term));
  std::vector<ValueId> parts;
  for (const NodeId input : inputs) {
    parts.push_back(l.program().tensor(md_in(order, l.dims(input))));
    args.push_back(out(parts.back()));
  }
  l.program().kernel(
      id, "split of a gradient",
      [shape, count = terms.size()](void* const* p) {
        split_sum(shape, sources(p), static_cast<int>(count), reinterpret_cast<float* const*>(p + count));
      },
      std::move(args));
  for (size_t i = 0; i < parts.size(); i++) l.contribute(l.input_node(id, i), parts[i]);
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::Concat&) {
  const Order order = concat_order(l, id);
  ConcatShape shape{.whole = shape_in(order, l.dims(id)), .part_blocks = {}};
  std::vector<Arg> args;
  for (size_t i = 0; i < l.node(id).data_inputs.size(); i++) {
    const Dims part = l.dims(l.input_node(id, i));
    args.push_back(in(l.program().converted(id, l.input(id, i), md_in(order, part))));
    shape.part_blocks.push_back(shape_in(order, part).blocks);
  }
  const ValueId y = l.program().tensor(md_in(order, l.dims(id)));
  args.push_back(out(y));
  l.program().kernel(
      id, "concat",
      [shape](void* const* p) { concat_parts(shape, sources(p), static_cast<float*>(p[shape.part_blocks.size()])); },
      std::move(args));
  l.set_output(id, y);
  return [&l, id, shape] { split_gradient(l, id, shape); };
}

// Copies the labels, because they are valid only during the forward pass.
Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::SoftmaxOutput& op) {
  const ValueId x = flattened(l, id, l.input(id));
  const Dims dims = dims_of(l.md(x));
  const int64_t rows = dims[0], classes = dims[1];
  const ValueId p = l.program().tensor(l.md(x));
  l.program().kernel(id, "softmax",
                     [rows, classes](void* const* a) {
                       softmax_forward(rows, classes, static_cast<const float*>(a[0]), static_cast<float*>(a[1]));
                     },
                     {in(x), out(p)}, {x});
  l.set_output(id, p);
  const ValueId labels = l.program().tensor(plain_md({rows}));
  if (!l.training()) return [] {};
  l.program().kernel(id, "copy of the labels",
                     [rows, batch = l.batch(), label = l.label_of(id), count = l.label_count()](void* const* a) {
                       copy_labels(batch->labels, label, count, {static_cast<float*>(a[0]), static_cast<size_t>(rows)});
                     },
                     {out(labels)});
  return [&l, id, p, labels, rows, classes, op] {
    const ValueId dx = l.program().tensor(l.md(p));
    l.program().kernel(id, "softmax backward",
                       [op, rows, classes](void* const* a) {
                         softmax_backward(op, rows, classes, static_cast<const float*>(a[0]),
                                          static_cast<const float*>(a[1]), static_cast<float*>(a[2]));
                       },
                       {in(p), in(labels), out(dx)});
    const NodeId input = l.input_node(id);
    l.contribute(input, l.program().alias(dx, plain_md(l.dims(input))));
  };
}

}  // namespace dtrain::exec::cpu
