#include "exec/cpu/runner.h"

#include <fmt/core.h>

#include <algorithm>

#include "exec/cpu/layout.h"

namespace dtrain::exec::cpu {

Runner::Runner(const Program& program, bool share) : engine_(program.engine()), stream_(engine_) {
  const MemoryPlan plan = program.plan_memory(share);
  size_t scratchpad_bytes = 0;  // the largest size that any step needs
  for (const Value& value : program.values()) {
    if (value.scratchpad) scratchpad_bytes = std::max(scratchpad_bytes, value.md.get_size());
  }
  arena_ = Arena(plan.arena_bytes);
  scratchpad_ = Arena(scratchpad_bytes);
  bind_addresses(program, plan);
  for (const Step& step : program.steps()) steps_.push_back(bind(program, step));
}

void Runner::bind_addresses(const Program& program, const MemoryPlan& plan) {
  const auto& values = program.values();
  addresses_.resize(values.size(), nullptr);
  mds_.reserve(values.size());
  for (ValueId v = 0; v < values.size(); v++) {
    mds_.push_back(values[v].md);
    const Value& root = values[program.root(v)];
    if (root.fixed != nullptr) addresses_[v] = root.fixed;
    if (root.scratchpad) addresses_[v] = scratchpad_.data();
    if (plan.offset[v] != MemoryPlan::kNone) addresses_[v] = arena_.data() + plan.offset[v];
  }
}

Runner::BoundStep Runner::bind(const Program& program, const Step& step) const {
  BoundStep bound;
  bound.node = step.node;
  bound.what = step.what;
  bound.primitive = step.primitive;
  bound.kernel = step.kernel;
  for (const Arg& arg : step.args) {
    bound.pointers.push_back(addresses_[arg.value]);
    if (!program.values()[program.root(arg.value)].scratchpad) bound.bytes += mds_[arg.value].get_size();
    if (step.kernel) continue;
    bound.memories.emplace_back(mds_[arg.value], engine_, addresses_[arg.value]);
    bound.args.push_back({arg.key, bound.memories.back().get()});
  }
  return bound;
}

void Runner::execute_step(BoundStep& step) const {
  if (step.kernel) {
    step.kernel(step.pointers.data());
  } else {
    execute(step.primitive, stream_, step.args);
  }
}

void Runner::record_on(telemetry::Timeline* timeline, const graph::Graph& graph) {
  timeline_ = timeline;
  if (timeline == nullptr) return;
  for (BoundStep& step : steps_) {
    step.name = timeline->keep(fmt::format("{}: {}", graph.node(step.node).name, step.what));
  }
}

void Runner::run(size_t index) {
  BoundStep& step = steps_[index];
  const telemetry::Span span(timeline_, step.name, "operator");
  if (!profiling_) return execute_step(step);
  const auto begin = std::chrono::steady_clock::now();
  execute_step(step);
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin;
  step.spent += spent;
  step.least = std::min(step.least, spent);
  step.runs++;
}

std::vector<float> Runner::read(ValueId value) const {
  const Md plain = plain_md(dims_of(mds_[value]));
  std::vector<float> result(plain.get_size() / sizeof(float));
  dnnl::memory from(mds_[value], engine_, addresses_[value]);
  dnnl::memory to(plain, engine_, result.data());
  dnnl::stream stream(engine_);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return result;
}

std::vector<Runner::Cost> Runner::profile() const {
  std::vector<Cost> costs;
  for (const BoundStep& step : steps_) {
    costs.push_back({step.node, step.what, step.kernel ? "own" : implementation_of(step.primitive),
                     std::chrono::duration<double>(step.spent).count(),
                     std::chrono::duration<double>(step.least).count(), step.runs, step.bytes});
  }
  return costs;
}

}  // namespace dtrain::exec::cpu
