#include "exec/cpu/lower_sums.h"

#include "exec/cpu/kernels/elementwise.h"
#include "exec/lowering.h"

namespace dtrain::exec::cpu {

namespace {

int64_t elements(const Md& layout) {
  return static_cast<int64_t>(layout.get_size() / sizeof(float));
}

std::vector<Arg> reads(const std::vector<ValueId>& values) {
  std::vector<Arg> args;
  args.reserve(values.size() + 2);
  for (const ValueId value : values) args.push_back(in(value));
  return args;
}

// Emits a kernel that combines the terms, which are in `layout`, into a new value, by calling combine(sources, count,
// result, elements).
template <class Combine>
ValueId emit_combined(Program& program, graph::NodeId node, const char* what, const std::vector<ValueId>& terms,
                      const Md& layout, Combine combine) {
  const ValueId result = program.tensor(layout);
  std::vector<Arg> args = reads(terms);
  args.push_back(out(result));
  program.kernel(
      node, what,
      [combine, count = static_cast<int>(terms.size()), n = elements(layout)](void* const* p) {
        combine(sources(p), count, static_cast<float*>(p[count]), n);
      },
      std::move(args), terms);
  return result;
}

// Converts the terms to `layout`. If there are more than `most` terms, sums the first ones so that `most` remain.
std::vector<ValueId> prepared(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout,
                              size_t most) {
  for (ValueId& term : terms) term = program.converted(node, term, layout);
  sum_first_terms(terms, most, kSourcesMax, [&](const std::vector<ValueId>& first) {
    return emit_combined(program, node, "sum", first, layout, sum_sources);
  });
  return terms;
}

}  // namespace

ValueId emit_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout) {
  return prepared(program, node, std::move(terms), layout, 1)[0];
}

void emit_sum_into(Program& program, graph::NodeId node, std::vector<ValueId> terms, ValueId target) {
  const Md& layout = program.md(target);
  if (terms.empty()) {
    program.kernel(node, "zero gradient",
                   [n = elements(layout)](void* const* p) { fill_zero(static_cast<float*>(p[0]), n); }, {out(target)});
    return;
  }
  terms = prepared(program, node, std::move(terms), layout, kSourcesMax);
  std::vector<Arg> args = reads(terms);
  args.push_back(out(target));
  program.kernel(
      node, "sum of gradients",
      [count = static_cast<int>(terms.size()), n = elements(layout)](void* const* p) {
        sum_sources(sources(p), count, static_cast<float*>(p[count]), n);
      },
      std::move(args));
}

ValueId emit_sum_relu(Program& program, graph::NodeId node, std::vector<ValueId> terms, const Md& layout) {
  terms = prepared(program, node, std::move(terms), layout, kSourcesMax);
  return emit_combined(program, node, "sum, relu", terms, layout, sum_relu);
}

ValueId emit_scaled_sum(Program& program, graph::NodeId node, std::vector<ValueId> terms, double factor,
                        const Md& layout) {
  terms = prepared(program, node, std::move(terms), layout, kSourcesMax);
  return emit_combined(program, node, "scale", terms, layout,
                       [by = static_cast<float>(factor)](const float* const* from, int count, float* to, int64_t n) {
                         scale_sum(from, count, by, to, n);
                       });
}

ValueId emit_activation_backward(Program& program, graph::NodeId node, graph::Activation::Kind kind, ValueId y,
                                 std::vector<ValueId> terms) {
  const Md layout = program.md(y);
  terms = prepared(program, node, std::move(terms), layout, kSourcesMax);
  const ValueId dx = program.tensor(layout);
  std::vector<Arg> args = reads(terms);
  args.push_back(in(y));
  args.push_back(out(dx));
  program.kernel(
      node, "activation backward",
      [kind, count = static_cast<int>(terms.size()), n = elements(layout)](void* const* p) {
        activation_backward(kind, static_cast<const float*>(p[count]), sources(p), count,
                            static_cast<float*>(p[count + 1]), n);
      },
      std::move(args), terms);
  return dx;
}

}  // namespace dtrain::exec::cpu
