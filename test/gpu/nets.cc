#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "base/random.h"
#include "exec/check.h"
#include "modes.h"
#include "optim/initializer.h"
#include "stages.h"
#include "steps.h"

namespace dtrain::gpu {

namespace {

using exec::CheckReport;
using exec::Executor;
using exec::Options;
using exec::test::Network;
using exec::test::Step;

constexpr double kLossScale = 16;  // with 1024, gradients of the deep networks overflow float16
constexpr int kSteps = 3;

// In order of their cost for the reference, cheapest first: a float32 step takes one core from 0.001 s (mlp) to 30 s
// (resnet-50 at 224). Depths and sizes are the smallest with all layers of a family, except for the two networks that
// are also measured, which are used as they are trained.
std::vector<Network> networks() {
  return {{"mlp", {1, 28, 28}, 4},
          {"lenet", {1, 28, 28}, 4},
          {"3conv", {3, 28, 28}, 4},
          {"resnet-28-small-20", {3, 28, 28}, 4},
          {"resnet-20", {3, 28, 28}, 4},
          {"resnet-v1-20", {3, 28, 28}, 4},
          {"cross-20", {3, 28, 28}, 4},
          {"resnet-164", {3, 28, 28}, 2},
          {"inception-bn-28-small", {3, 28, 28}, 4},
          {"inception-bn-28-small@v0.7", {3, 28, 28}, 4},
          {"inception-bn", {3, 28, 28}, 4},
          {"resnet-zscore", {3, 32, 32}, 2},
          {"resnet-18", {3, 64, 64}, 4},
          {"resnet-v1-18", {3, 64, 64}, 4},
          {"resnet-v1-50", {3, 64, 64}, 4},
          {"inception-bn", {3, 224, 224}, 2},
          {"inception-bn@v0.7", {3, 224, 224}, 2},
          {"resnet-50", {3, 224, 224}, 2}};
}

// Lets one executor at a time use the device, although several threads have one. A call returns when the device has
// completed its work, so that an error is seen by the executor that caused it.
class TakingTurns final : public Executor {
 public:
  TakingTurns(std::unique_ptr<Executor> executor, Machine& machine, std::mutex& turn)
      : executor_(std::move(executor)), machine_(machine), turn_(turn) {}
  ~TakingTurns() override {
    const std::lock_guard lock(turn_);
    executor_.reset();
  }

  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override {
    return in_turn([&]() -> Result<> {
      DT_TRY_VOID(executor_->forward(batch, wait));
      return machine_.synchronise();
    });
  }
  Result<> backward(const exec::GradientReady& ready) override {
    return in_turn([&]() -> Result<> {
      DT_TRY_VOID(executor_->backward(ready));
      return machine_.synchronise();
    });
  }
  Result<> finish() override {
    return in_turn([&] { return executor_->finish(); });
  }
  void set_loss_scale(const optim::LossScaleState& state) override {
    in_turn([&] { executor_->set_loss_scale(state); });
  }
  const ParameterView& parameters() override {
    return in_turn([&]() -> const ParameterView& { return executor_->parameters(); });
  }
  size_t heads() const override { return executor_->heads(); }
  std::span<const float> result(size_t head) override {
    return in_turn([&] { return executor_->result(head); });
  }
  std::vector<float> node_output(graph::NodeId node) override {
    return in_turn([&] { return executor_->node_output(node); });
  }
  std::vector<float> node_gradient(graph::NodeId node) override {
    return in_turn([&] { return executor_->node_gradient(node); });
  }
  [[nodiscard]] size_t memory_bytes() const override { return executor_->memory_bytes(); }

 private:
  template <class Work>
  std::invoke_result_t<Work> in_turn(Work work) {
    const std::lock_guard lock(turn_);
    return work();
  }

  std::unique_ptr<Executor> executor_;
  Machine& machine_;
  std::mutex& turn_;
};

// What the parts of the stage share.
struct Shared {
  Machine& machine;
  std::mutex turn;

  Result<std::unique_ptr<Executor>> compile(const graph::Graph& graph, const Options& options) {
    const std::lock_guard lock(turn);
    machine.use();
    DT_TRY(std::unique_ptr<Executor> executor, machine.backend().compile(graph, options));
    executor->set_loss_scale({kLossScale});
    return std::make_unique<TakingTurns>(std::move(executor), machine, turn);
  }
};

Options options_of(const Network& network) {
  return {.batch_size = network.batch, .inputs = {{.shape = network.image}}, .winograd = false};
}

Result<Outcome> check_nodes(Shared& shared, const Network& network, const Mode& mode) {
  const graph::Graph graph = model(network);
  Options options = mode.options(options_of(network));
  options.keep_all = true;
  DT_TRY(const std::unique_ptr<Executor> executor, shared.compile(graph, options));
  DT_TRY_VOID(optim::initialize({}, executor->parameters(), 1));
  DT_TRY(const CheckReport report, check_against_reference(graph, options, *executor, random_batch(network, 1).view()));
  const Json numbers = {{"error", report.worst.error}, {"tolerance", report.worst.tolerance}};
  return report.agrees() ? passed(report.worst.text(), numbers) : failed(report.text(), numbers);
}

// Of all gradients as one vector, and of the probabilities, after any of the steps. A sign or a maximum that rounding
// decides differently changes these (test/cuda/executor/networks_test.cc), so a deep network with few images may differ
// by more; how much more, rounding_effect tells. These tolerances show only that the step is useful; the check node by
// node shows that it is right.
double steps_tolerance(const Mode& mode) {
  if (mode.type == Type::kBfloat16) return 0.6;
  if (mode.type == Type::kFloat16 || mode.tf32) return 0.25;
  return 1e-2;
}

// How many times as much as rounding the images alone changes the reference's gradients the device may differ: it
// rounds everything else as well.
constexpr double kRoundingsMax = 4;

// The largest relative error of a number that is rounded as this mode rounds the factors of a product.
double rounding_of(const Mode& mode) {
  if (mode.type == Type::kBfloat16) return 0x1p-9;
  return mode.type == Type::kFloat16 || mode.tf32 ? 0x1p-12 : 0x1p-24;
}

// The same steps in one mode, each starting from the reference's weights.
struct Contender {
  Mode mode;
  std::unique_ptr<Executor> executor;
  double error = 0, rounding = 0;  // rounding_effect, if it was needed

  [[nodiscard]] double tolerance() const { return std::max(steps_tolerance(mode), kRoundingsMax * rounding); }
};

Step together(const Step& step) {
  Step result;
  result.tensors = {step.tensors[0], {"gradients", {}}};
  for (const Step::Tensor& tensor : step.tensors) {
    if (!tensor.name.starts_with("gradient of ")) continue;
    std::vector<float>& all = result.tensors[1].values;
    all.insert(all.end(), tensor.values.begin(), tensor.values.end());
  }
  return result;
}

Result<std::vector<Contender>> contenders_of(Shared& shared, const Network& network, const graph::Graph& graph) {
  std::vector<Contender> contenders;
  for (const Mode& mode : kModes) {
    Options options = mode.options(options_of(network));
    options.bucket_begin = exec::test::three_buckets(graph, network.image);
    DT_TRY(std::unique_ptr<Executor> executor, shared.compile(graph, options), "in {}", mode.name);
    contenders.push_back({mode, std::move(executor)});
  }
  return contenders;
}

// How much rounding the images, as this mode rounds, changes the reference's own gradients with its present weights.
Result<double> rounding_effect(Executor& reference, exec::test::HostBatch batch, const Step& expected,
                               const Mode& mode) {
  RandomStream random(1, Use::kTest);
  for (float& x : batch.data) x *= static_cast<float>(1 + (random.below(2) == 0 ? -1 : 1) * 2 * rounding_of(mode));
  DT_TRY(const Step rounded, exec::test::run_step(reference, batch.view()));
  return largest_difference(together(expected), together(rounded), 0).error;
}

Outcome verdict(const std::vector<Contender>& contenders) {
  Json numbers = Json::object();
  std::string text, differing;
  for (const Contender& c : contenders) {
    const std::string name = c.mode.name;
    numbers[name + "_error"] = c.error;
    if (c.rounding > 0) numbers[name + "_rounding"] = c.rounding;
    text += fmt::format("{}{} {:.2g} of {:.2g}", text.empty() ? "" : ", ", name, c.error, c.tolerance());
    if (c.rounding > 0) text += fmt::format(" (rounding the images alone changes the reference by {:.2g})", c.rounding);
    if (!(c.error <= c.tolerance())) differing += (differing.empty() ? "" : ", ") + name;
  }
  return differing.empty() ? passed(text, numbers) : failed("differs in " + differing + ": " + text, numbers);
}

Result<Outcome> check_steps(Shared& shared, const Network& network) {
  const graph::Graph graph = model(network);
  const std::unique_ptr<exec::Backend> reference = exec::make_reference_backend();
  DT_TRY(const std::unique_ptr<Executor> truth, reference->compile(graph, options_of(network)));
  DT_TRY(const std::unique_ptr<Executor> rounding, reference->compile(graph, options_of(network)));
  DT_TRY_VOID(optim::initialize({}, truth->parameters(), 1));
  DT_TRY(std::vector<Contender> contenders, contenders_of(shared, network, graph));
  for (int step = 1; step <= kSteps; step++) {
    const exec::test::HostBatch batch = random_batch(network, static_cast<uint64_t>(step));
    for (Contender& c : contenders) exec::test::copy_weights(truth->parameters(), c.executor->parameters());
    DT_TRY(const Step expected, exec::test::run_step(*truth, batch.view()));
    for (Contender& c : contenders) {
      DT_TRY(const Step found, exec::test::run_step(*c.executor, batch.view()), "in {}", c.mode.name);
      const double error = largest_difference(together(expected), together(found), 0).error;
      if (!(error <= c.error)) c.error = error;
      if (error <= c.tolerance() || !std::isfinite(error)) continue;
      exec::test::copy_weights(truth->parameters(), rounding->parameters());
      DT_TRY(const double effect, rounding_effect(*rounding, batch, expected, c.mode));
      c.rounding = std::max(c.rounding, effect);
    }
    exec::test::descend(truth->parameters(), 0.01F);
  }
  return verdict(contenders);
}

}  // namespace

std::vector<Part> nets_parts(Machine& machine) {
  const auto shared = std::make_shared<Shared>(machine);
  std::vector<Part> parts;
  for (const Network& network : networks()) {
    const std::string name = fmt::format("{} {}x{}", network.name, network.image[1], network.image[2]);
    for (const Mode& mode : kModes) {
      parts.push_back({fmt::format("{}: nodes in {}", name, mode.name),
                       [shared, network, mode] { return check_nodes(*shared, network, mode); }});
    }
    parts.push_back(
        {fmt::format("{}: {} steps", name, kSteps), [shared, network] { return check_steps(*shared, network); }});
  }
  return parts;
}

}  // namespace dtrain::gpu
