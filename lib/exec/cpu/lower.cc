#include "exec/cpu/lower.h"

#include "exec/cpu/kernels/dense.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower_sums.h"

namespace dtrain::exec::cpu {

using graph::NodeId;

Lowering::Lowering(const LowerRequest& request)
    : LoweringBase(request.graph, request.shapes, request.options, Program(dnnl::engine(dnnl::engine::kind::cpu, 0)),
                   kNoValue),
      parameters_(request.parameters),
      batch_(request.batch),
      fusions_(find_fusions(request.graph, request.options.keep_all, !training())) {}

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
  const ValueId term = is_shared(found->index)
                           ? program_.tensor(plain_md(dims))
                           : program_.fixed(plain_md(dims), found->span->gradient.data(), found->index);
  return parameter_terms_[found->index].emplace_back(term);
}

// Adds the terms of shared parameters, and sets gradients without terms to 0.
void Lowering::finish_gradients(NodeId id) {
  for (auto [p, end] = first_read(id); p < end; p++) {
    if (!is_shared(p) && !parameter_terms_[p].empty()) continue;
    const Md flat = plain_md({element_count(shapes_.parameters[p].shape)});
    std::vector<ValueId> terms;
    for (const ValueId term : parameter_terms_[p]) terms.push_back(program_.alias(term, flat));
    float* gradient = parameters_.view().parameters[p].gradient.data();
    emit_sum_into(program_, id, std::move(terms), program_.fixed(flat, gradient, p));
  }
}

ValueId Lowering::gradient(NodeId id, const Md& layout) {
  return set_gradient(id, emit_sum(program_, id, terms_of(id), layout));
}

std::vector<ValueId> Lowering::gradient_terms(NodeId id, const Md& layout) {
  if (options_.keep_all) gradient(id, layout);
  std::vector<ValueId> terms = terms_of(id);
  for (ValueId& term : terms) term = program_.converted(id, term, layout);
  return terms;
}

Lowered lower(const LowerRequest& request) {
  Lowering l(request);
  Lowered lowered = l.lower_all();
  if (l.uses_openblas_) reserve_product_memory();
  return lowered;
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
