#include "cuda/executor/program.h"

#include <algorithm>

#include "base/error.h"

namespace dtrain::cuda {

ValueId Program::add(const Value& value) {
  values_.push_back(value);
  return values_.size() - 1;
}

Map Program::map(Type type, int64_t n, int64_t h, int64_t w, int64_t channels, int64_t zeros) {
  const int64_t pitch = channels + zeros;
  const ValueId value = bytes(static_cast<size_t>(n * h * w * pitch * dtrain::bytes_of(type)));
  return {value, type, n, h, w, channels, pitch, zeros};
}

Map Program::slice(const Map& whole, int64_t begin, int64_t count) {
  Map part = whole;
  part.value = add(Value{.bytes = static_cast<size_t>(whole.rows() * count * dtrain::bytes_of(whole.type)),
                         .alias_of = whole.value,
                         .offset = static_cast<size_t>(begin * dtrain::bytes_of(whole.type))});
  part.channels = count;
  return part;
}

void Program::step(graph::NodeId node, Uses uses, std::function<Call(const Addresses&)> bind) {
  const auto drop_absent = [](std::vector<ValueId>& values) { std::erase(values, kNoValue); };
  drop_absent(uses.reads);
  drop_absent(uses.writes);
  // Slices cannot be overwritten in place: a slice starts at another address than the value of which it is a part, and
  // only the memory of that whole value can be reused.
  std::erase_if(uses.overwrites, [&](ValueId v) { return v == kNoValue || values_[v].alias_of.has_value(); });
  for (const ValueId value : uses.reads) DT_CHECK(value < values_.size(), "no such value");
  for (const ValueId value : uses.writes) DT_CHECK(value < values_.size(), "no such value");
  steps_.push_back({node, std::move(uses), std::move(bind)});
}

size_t Program::largest(bool Value::*is) const {
  size_t most = 0;
  for (const Value& value : values_) most = std::max(most, value.*is ? value.bytes : 0);
  return most;
}

int64_t Program::bytes_of(const Step& step) const {
  int64_t bytes = 0;
  for (const std::vector<ValueId>* values : {&step.uses.reads, &step.uses.writes}) {
    for (const ValueId value : *values)
      bytes += values_[value].scratch ? 0 : static_cast<int64_t>(values_[value].bytes);
  }
  return bytes;
}

exec::MemoryPlan Program::plan_memory(bool share) const {
  std::vector<exec::MemoryValue> values;
  for (const Value& v : values_) {
    const bool outside = v.fixed != nullptr || v.scratch || v.zeros;
    values.push_back({.bytes = v.bytes, .alias_of = v.alias_of, .outside = outside});
  }
  for (const ValueId value : kept_) values[value].kept = true;
  std::vector<exec::MemoryStep> steps;
  for (const Step& step : steps_) {
    exec::MemoryStep& made = steps.emplace_back();
    made.uses = step.uses.reads;
    made.uses.insert(made.uses.end(), step.uses.writes.begin(), step.uses.writes.end());
    if (!step.uses.writes.empty() && !values_[step.uses.writes[0]].alias_of) made.first_write = step.uses.writes[0];
    made.overwrites = step.uses.overwrites;
  }
  return exec::plan_memory(values, steps, share, kAlignment);
}

Addresses Program::addresses(const exec::MemoryPlan& plan, void* arena, void* scratch) const {
  std::vector<std::byte*> result(values_.size(), nullptr);
  for (ValueId v = 0; v < values_.size(); v++) {
    size_t offset = 0;
    ValueId root = v;
    for (; values_[root].alias_of; root = *values_[root].alias_of) offset += values_[root].offset;
    std::byte* base = nullptr;
    if (values_[root].fixed != nullptr) base = static_cast<std::byte*>(values_[root].fixed);
    if (values_[root].zeros) base = static_cast<std::byte*>(scratch);
    if (values_[root].scratch) base = static_cast<std::byte*>(scratch) + zero_bytes();
    if (plan.offset[root] != exec::MemoryPlan::kNone) base = static_cast<std::byte*>(arena) + plan.offset[root];
    if (base != nullptr) result[v] = base + offset;
  }
  return Addresses(std::move(result));
}

}  // namespace dtrain::cuda
