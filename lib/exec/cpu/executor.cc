#include "exec/cpu/executor.h"

#include <algorithm>
#include <map>

#include "exec/contract.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec {

namespace cpu {

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
  DT_CHECK(options_.keep_all, "the values of single nodes are kept with keep_all only");
  return value == kNoValue ? std::vector<float>{} : runner_->read(value);
}

std::string CpuExecutor::profile() const {
  struct Sum {
    double mean = 0, least = 0;
  };
  std::vector<Runner::Cost> costs = runner_->profile();
  std::erase_if(costs, [](const auto& cost) { return cost.runs == 0; });
  std::map<std::string, Sum> by_kind;
  Sum all;
  for (auto& cost : costs) {
    cost.seconds /= static_cast<double>(cost.runs);
    for (Sum* sum : {&by_kind[cost.what], &all}) sum->mean += cost.seconds, sum->least += cost.least;
  }
  std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.least > b.least; });
  std::string text = "    mean    least ms  share\n";
  for (const auto& cost : costs) {
    text += fmt::format("{:8.3f} {:8.3f} {:5.1f} %  {:32} {:28} {}\n", 1e3 * cost.seconds, 1e3 * cost.least,
                        100 * cost.least / all.least, cost.what, graph_.node(cost.node).name, cost.implementation);
  }
  text += fmt::format("{:8.3f} {:8.3f}          in all\n", 1e3 * all.mean, 1e3 * all.least);
  for (const auto& [what, sum] : by_kind) {
    text += fmt::format("{:8.3f} {:8.3f} {:5.1f} %  {}\n", 1e3 * sum.mean, 1e3 * sum.least, 100 * sum.least / all.least,
                        what);
  }
  return text;
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
