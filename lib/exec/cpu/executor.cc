#include "exec/cpu/executor.h"

#include <algorithm>
#include <string_view>

#include "exec/contract.h"
#include "exec/cpu/arena.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec {

namespace cpu {

namespace {

// A bound on what oneDNN allocates in a step, because it crashes if such an allocation fails. The tested networks stay
// far below it.
constexpr size_t kStepBytes = size_t{256} << 20;

}  // namespace

CpuExecutor::CpuExecutor(const graph::Graph& graph, const Options& options, graph::Shapes shapes)
    : graph_(graph), options_(options), shapes_(std::move(shapes)) {}

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::compile(const graph::Graph& graph, const Options& options,
                                                          Executor* weights_of) {
  DT_TRY(graph::Shapes shapes, infer_shapes(graph, options));
  check_options(options, shapes);
  DT_TRY_VOID(check_float32(options));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(graph, options, std::move(shapes)));
  if (weights_of == nullptr) {
    executor->store_ = std::make_shared<ParameterStore>(executor->shapes_, options.purpose);
  } else {
    auto* owner = dynamic_cast<CpuExecutor*>(weights_of);
    DT_CHECK(owner != nullptr, "the executor that owns the weights belongs to another backend");
    check_same_parameters(owner->parameters(), executor->shapes_);
    DT_CHECK(!executor->training() || owner->training(),
             "a training executor can share weights only with another training executor");
    executor->store_ = owner->store_;
  }
  executor->view_ = executor->training() ? executor->store_->view() : without_gradients(executor->store_->view());
  try {
    executor->build();
  } catch (const std::bad_alloc&) {
    return fail(Code::kDevice, "not enough memory for batches of {} images: use a smaller --batch-size",
                options.batch_size);
  }
  return executor;
}

void CpuExecutor::build() {
  // oneDNN divides a primitive's work among the threads that exist when the primitive is created.
  const Team team(options_.threads);
  Lowered lowered = lower({graph_, shapes_, options_, *store_, &batch_});
  schedule_ = schedule_buckets(lowered.program, options_.bucket_begin);
  forward_count_ = lowered.program.forward_count();
  outputs_ = std::move(lowered.outputs);
  gradients_ = std::move(lowered.gradients);
  results_ = std::move(lowered.results);
  runner_ = std::make_unique<Runner>(lowered.program, !options_.keep_all);
  runner_->record_on(options_.timeline, graph_);
  require_address_space(kStepBytes);
}

Result<> CpuExecutor::forward(const Batch& batch, const WeightsWait& wait) {
  DT_TRY_VOID(check_batch(batch, options_, shapes_));
  const Team team(options_.threads);
  batch_ = batch;
  const std::vector<size_t>& due = schedule_.wait_before;
  size_t bucket = 0;
  for (size_t step = 0; step < forward_count_; step++) {
    for (; bucket < due.size() && due[bucket] == step; bucket++) DT_TRY_VOID(wait(bucket));
    team.keep_apart();
    runner_->run(step);
  }
  for (; bucket < due.size(); bucket++) DT_TRY_VOID(wait(bucket));
  batch_ = {};
  return {};
}

Result<> CpuExecutor::backward(const GradientReady& ready) {
  DT_CHECK(training(), "an inference executor has no backward pass");
  const Team team(options_.threads);
  const std::vector<size_t>& done = schedule_.ready_after;
  size_t left = done.size();
  for (size_t step = forward_count_; step < runner_->size(); step++) {
    team.keep_apart();
    runner_->run(step);
    for (; left > 0 && done[left - 1] == step; left--) DT_TRY_VOID(ready(left - 1));
  }
  for (; left > 0; left--) DT_TRY_VOID(ready(left - 1));
  return {};
}

std::span<const float> CpuExecutor::result(size_t head) {
  const auto count = static_cast<size_t>(options_.batch_size * shapes_.heads[head].outputs);
  return {static_cast<const float*>(runner_->address(results_[head])), count};
}

std::vector<float> CpuExecutor::read(ValueId value) const {
  DT_CHECK(options_.keep_all, "the values of single nodes are kept only with keep_all");
  return value == kNoValue ? std::vector<float>{} : runner_->read(value);
}

std::vector<ProfileLine> CpuExecutor::profile() const {
  const std::vector<int64_t> products = graph::multiply_accumulates_by_node(graph_, shapes_);
  std::vector<ProfileLine> lines;
  for (const Runner::Cost& cost : runner_->profile()) {
    if (cost.runs == 0) continue;
    ProfileLine line{.node = graph_.node(cost.node).name, .what = cost.what, .implementation = cost.implementation};
    line.mean_s = cost.seconds / static_cast<double>(cost.runs);
    line.least_s = cost.least;
    line.bytes = static_cast<double>(cost.bytes);
    // Each of the three directions has the same number of operations. Biases, reorders and sums of the same node are
    // separate steps and are not counted.
    const std::string_view what = cost.what;
    if (what.starts_with("convolution") || what.starts_with("fully connected")) {
      line.flops = 2 * static_cast<double>(products[cost.node] * options_.batch_size);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

namespace {

class CpuBackend final : public Backend {
 public:
  Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options,
                                            Executor* weights_of) override {
    DT_TRY(std::unique_ptr<Executor> executor, CpuExecutor::compile(graph, options, weights_of));
    return executor;
  }
};

}  // namespace

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<cpu::CpuBackend>();
}

}  // namespace dtrain::exec
