#include "exec/cpu/lower.h"

#include "base/overloaded.h"
#include "exec/cpu/kernels/dense.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower_sums.h"
#include "graph/flow.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

Lowering::Lowering(const LowerRequest& request)
    : graph_(request.graph),
      shapes_(request.shapes),
      options_(request.options),
      parameters_(request.parameters),
      batch_(request.batch),
      fusions_(request.options.keep_all
                   ? no_fusions(request.graph)
                   : find_fusions(request.graph, request.options.purpose == Options::Purpose::kInference)),
      program_(dnnl::engine(dnnl::engine::kind::cpu, 0)),
      outputs_(request.graph.nodes().size(), kNoValue),
      terms_(outputs_.size()),
      wants_gradient_(graph::wants_gradient(request.graph, request.shapes)),
      depends_on_training_(graph::depends_on_training(request.graph, request.shapes)),
      weight_terms_(request.shapes.parameters.size()) {}

Dims Lowering::dims(NodeId id) const {
  Dims result{options_.batch_size};
  result.insert(result.end(), shapes_.output[id].begin(), shapes_.output[id].end());
  return result;
}

ValueId Lowering::blocked_input(NodeId id, size_t i) {
  const ValueId value = input(id, i);
  return program_.converted(id, value, blocked_layout(md(value)));
}

ValueId Lowering::weight(NodeId id, size_t argument, const Dims& dims) {
  const auto found = parameters_.find(id, argument);
  if (!found) return kNoValue;
  return program_.fixed(plain_md(dims), found->span->weight.data(),
                        found->learned ? std::optional(found->index) : std::nullopt);
}

ValueId Lowering::gradient_of_weight(NodeId id, size_t argument, const Dims& dims) {
  const auto found = parameters_.find(id, argument);
  if (!found) return kNoValue;
  const bool shared = shapes_.parameters[found->index].uses.size() > 1;
  const ValueId term = shared ? program_.tensor(plain_md(dims))
                              : program_.fixed(plain_md(dims), found->span->gradient.data(), found->index);
  weight_terms_[found->index].push_back(term);
  return term;
}

void Lowering::finish_gradients(NodeId id) {
  for (size_t p = 0; p < weight_terms_.size(); p++) {
    const std::vector<graph::TensorUse>& uses = shapes_.parameters[p].uses;
    if (uses.front().node != id) continue;
    if (uses.size() == 1 && !weight_terms_[p].empty()) continue;
    const Md flat = plain_md({element_count(shapes_.parameters[p].shape)});
    std::vector<ValueId> terms;
    for (const ValueId term : weight_terms_[p]) terms.push_back(program_.alias(term, flat));
    float* gradient = parameters_.view().parameters[p].gradient.data();
    emit_sum_into(program_, id, std::move(terms), program_.fixed(flat, gradient, p));
  }
}

void Lowering::contribute(NodeId id, ValueId term) {
  if (wants_gradient_[id]) terms_[id].push_back(term);
}

ValueId Lowering::gradient(NodeId id, const Md& layout) {
  if (terms_[id].empty()) return kNoValue;
  terms_[id] = {emit_sum(program_, id, std::move(terms_[id]), layout)};
  return terms_[id][0];
}

std::vector<ValueId> Lowering::gradient_terms(NodeId id, const Md& layout) {
  if (options_.keep_all && !terms_[id].empty()) gradient(id, layout);
  std::vector<ValueId> result;
  result.reserve(terms_[id].size());
  for (const ValueId term : terms_[id]) result.push_back(program_.converted(id, term, layout));
  return result;
}

Lowering::EmitBackward Lowering::lower_node(NodeId id) {
  return std::visit(Overloaded{
                        [&](const graph::Input&) { return lower_input(*this, id); },
                        [&](const graph::Convolution& op) { return lower_convolution(*this, id, op); },
                        [&](const graph::FullyConnected& op) { return lower_dense(*this, id, op); },
                        [&](const graph::BatchNorm& op) { return lower_batch_norm(*this, id, op); },
                        [&](const graph::Activation& op) { return lower_activation(*this, id, op); },
                        [&](const graph::Pooling& op) { return lower_pooling(*this, id, op); },
                        [&](const graph::Concat&) { return lower_concat(*this, id); },
                        [&](const graph::Add&) { return lower_add(*this, id); },
                        [&](const graph::Flatten&) { return lower_flatten(*this, id); },
                        [&](const graph::Identity&) { return lower_identity(*this, id); },
                        [&](const graph::Scale& op) { return lower_scale(*this, id, op); },
                        [&](const graph::Dropout& op) { return lower_dropout(*this, id, op); },
                        [&](const graph::LocalResponseNorm& op) { return lower_local_response_norm(*this, id, op); },
                        [&](const graph::SpatialTransformer&) { return lower_spatial_transformer(*this, id); },
                        [&](const graph::SoftmaxOutput& op) { return lower_softmax(*this, id, op); },
                    },
                    node(id).op);
}

Lowered Lowering::finish() && {
  if (uses_openblas_) reserve_product_memory();
  std::vector<ValueId> gradients(outputs_.size(), kNoValue);
  for (NodeId id = 0; id < gradients.size(); id++) {
    if (terms_[id].size() == 1) gradients[id] = terms_[id][0];
  }
  std::vector<ValueId> results;
  for (const graph::HeadInfo& head : shapes_.heads) {
    results.push_back(outputs_[head.node]);
    program_.keep(results.back());
  }
  return {std::move(program_), std::move(outputs_), std::move(gradients), std::move(results)};
}

Lowered lower(const LowerRequest& request) {
  Lowering lowering(request);
  const std::vector<NodeId> order = request.graph.canonical_order();
  std::vector<Lowering::EmitBackward> backward;
  backward.reserve(order.size());
  for (const NodeId id : order) backward.push_back(lowering.lower_node(id));
  lowering.program_.begin_backward();
  if (lowering.training()) {
    for (size_t i = order.size(); i-- > 0;) {
      backward[i]();
      lowering.finish_gradients(order[i]);
    }
  }
  return std::move(lowering).finish();
}

Md blocked_layout(const Md& md) {
  return blocked_shape(md) ? md : md_in(Order::kBlocks16, dims_of(md));
}

ValueId flattened(Lowering& l, NodeId id, ValueId value) {
  const Dims dims = dims_of(l.md(value));
  if (dims.size() == 2) return l.program().converted(id, value, plain_md(dims));
  const ValueId plain = l.program().converted(id, value, plain_md(dims));
  return l.program().alias(plain, plain_md({dims[0], dims[1] * dims[2] * dims[3]}));
}

}  // namespace dtrain::exec::cpu
