#include "exec/cpu/program.h"

#include "base/error.h"
#include "exec/cpu/layout.h"

namespace dtrain::exec::cpu {

ValueId Program::add(const Value& value) {
  values_.push_back(value);
  conversions_.emplace_back();
  return values_.size() - 1;
}

ValueId Program::fixed(const Md& md, void* memory, std::optional<size_t> parameter) {
  // Each layout of a piece of memory has only one value, so that a weight that was already converted to another layout
  // is not converted again.
  std::vector<ValueId>& known = fixed_[memory];
  for (const ValueId value : known) {
    if (values_[value].md == md) return value;
  }
  known.push_back(add(Value{.md = md, .fixed = memory, .parameter = parameter}));
  return known.back();
}

ValueId Program::root(ValueId value) const {
  while (values_[value].alias_of) value = *values_[value].alias_of;
  return value;
}

void Program::add_step(Step step) {
  for (const Arg& arg : step.args) DT_CHECK(arg.value < values_.size(), "{}: no such value", step.what);
  steps_.push_back(std::move(step));
}

void Program::primitive(graph::NodeId node, const char* what, const dnnl::primitive& primitive, std::vector<Arg> args,
                        std::vector<ValueId> overwrites) {
  add_step(Step{node, what, primitive, {}, std::move(args), std::move(overwrites)});
}

void Program::kernel(graph::NodeId node, const char* what, Kernel kernel, std::vector<Arg> args,
                     std::vector<ValueId> overwrites) {
  add_step(Step{node, what, {}, std::move(kernel), std::move(args), std::move(overwrites)});
}

void Program::reorder(graph::NodeId node, ValueId from, ValueId to) {
  const dnnl::reorder::primitive_desc pd(engine_, md(from), engine_, md(to), user_scratchpad());
  primitive(
      node, "reorder", dnnl::reorder(pd),
      {in(DNNL_ARG_FROM, from), out(DNNL_ARG_TO, to), out(DNNL_ARG_SCRATCHPAD, scratchpad(pd.scratchpad_desc()))});
}

ValueId Program::converted(graph::NodeId node, ValueId value, const Md& target) {
  if (md(value) == target) return value;
  for (const ValueId other : conversions_[value]) {
    if (md(other) == target) return other;
  }
  const bool same_bytes = same_order(md(value), target);
  const ValueId result = same_bytes ? alias(value, target) : tensor(target);
  if (!same_bytes) reorder(node, value, result);
  conversions_[value].push_back(result);
  return result;
}

MemoryPlan Program::plan_memory(bool share) const {
  std::vector<MemoryValue> values;
  for (const Value& v : values_) {
    values.push_back({v.md.get_size(), v.alias_of, v.fixed != nullptr || v.scratchpad, v.kept});
  }
  std::vector<MemoryStep> steps;
  for (const Step& step : steps_) {
    MemoryStep& made = steps.emplace_back();
    for (const Arg& arg : step.args) {
      made.uses.push_back(arg.value);
      if (arg.write && !made.first_write) made.first_write = arg.value;
    }
    made.overwrites = step.overwrites;
  }
  return exec::plan_memory(values, steps, share);
}

void Program::finish_write(graph::NodeId node, ValueId staged, ValueId target) {
  if (staged != target) reorder(node, staged, target);
}

}  // namespace dtrain::exec::cpu
