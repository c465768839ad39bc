#include "cuda/optimizer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "cuda/executor/device_table.h"
#include "cuda/executor/executor.h"
#include "cuda/kernels/norms.h"
#include "cuda/kernels/update.h"
#include "optim/rules.h"

namespace dtrain::cuda {

namespace {

constexpr size_t kSlotAlignment = 256;

size_t padded(size_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

Rule kernel_rule(std::string_view name) {
  if (name == "sgd" || name == "ccsgd" || name == "lars") return Rule::kSgd;
  if (name == "nag") return Rule::kNag;
  if (name == "nag@v0.7") return Rule::kOldNag;
  if (name == "sgld") return Rule::kSgld;
  if (name == "signum") return Rule::kSignum;
  if (name == "dcasgd") return Rule::kDcasgd;
  if (name == "lbsgd" || name == "lbsgd(lars)") return Rule::kLbsgd;
  if (name == "adam") return Rule::kAdam;
  if (name == "adam@v0.7") return Rule::kOldAdam;
  if (name == "adamax") return Rule::kAdamax;
  if (name == "adagrad") return Rule::kAdagrad;
  if (name == "rmsprop") return Rule::kRmsprop;
  if (name == "rmsprop(centered)") return Rule::kCenteredRmsprop;
  if (name == "rmsprop@v0.7") return Rule::kOldRmsprop;
  if (name == "adadelta") return Rule::kAdadelta;
  if (name == "ftrl") return Rule::kFtrl;
  DT_CHECK(false, "there is no kernel for the optimizer '{}'", name);
  return Rule::kSgd;
}

// Computes the learning rates of a group's arrays from the norms of these arrays, and owns the memory that this needs.
class GroupNorms {
 public:
  GroupNorms(const optim::OptimizerSpec& spec, const std::vector<UpdateTensor>& tensors,
             const std::vector<int64_t>& counts, const StepChoice& step) {
    constexpr int64_t kBlock = optim::kNormBlock;
    rates_.accumulated = optim::accumulated_updates(spec);
    table_ = DeviceTable<UpdateTensor>(tensors, counts, norm_bytes(tensors, rates_.accumulated > 0), kBlock);
    std::vector<int64_t> first = {0};
    for (const int64_t count : counts) first.push_back(first.back() + (count + kBlock - 1) / kBlock);
    first_ = device_copy(first);
    squares_ = DeviceMemory(static_cast<size_t>(first.back()) * 2 * sizeof(double));
    results_ = DeviceMemory(tensors.size() * sizeof(double));
    const optim::Parameters parameters = optim::rule_parameters(spec);
    rates_.rule = spec.name == "lars" ? NormRates::Rule::kLars : NormRates::Rule::kLbsgd;
    rates_.table = table_.table();
    rates_.tensors = std::ssize(tensors);
    rates_.first_chunk = static_cast<const int64_t*>(first_.at(0));
    std::copy_n(parameters.begin(), std::size(rates_.parameters), rates_.parameters);
    rates_.step = step;
    rates_.squares = static_cast<double*>(squares_.at(0));
    rates_.rates = static_cast<double*>(results_.at(0));
  }

  const double* find(cudaStream_t stream) const {
    if (!table_.empty()) find_norm_rates(rates_, stream);
    return rates_.rates;
  }

 private:
  DeviceTable<UpdateTensor> table_;
  DeviceMemory first_, squares_, results_;
  NormRates rates_;
};

class DeviceOptimizer final : public optim::ArrayOptimizer {
 public:
  DeviceOptimizer(const optim::OptimizerSpec& spec, Rule rule, size_t slots, std::shared_ptr<StoreStream> stream,
                  LossScale* outcome)
      : spec_(spec),
        rule_(rule),
        scalars_(optim::scalars_of(spec, {.norms = optim::Norms{}})),
        slots_(slots),
        stream_(std::move(stream)),
        outcome_(outcome) {}
  ~DeviceOptimizer() override { stream_->drop_graphs(); }
  DeviceOptimizer(const DeviceOptimizer&) = delete;
  DeviceOptimizer& operator=(const DeviceOptimizer&) = delete;

  void bind(const std::vector<std::vector<optim::LearnedArray>>& groups) override {
    DT_CUDA(cudaSetDevice(stream_->device()));
    stream_->drop_graphs();
    place_state(groups);
    groups_.clear();
    for (PinnedMemory& staged : staged_) staged = PinnedMemory(groups.size() * sizeof(Steps));
    steps_ = DeviceMemory(groups.size() * sizeof(Steps));
    for (size_t g = 0; g < groups.size(); g++) {
      std::vector<UpdateTensor> tensors;
      std::vector<int64_t> counts;
      for (size_t a = 0; a < groups[g].size(); a++) {
        tensors.push_back(tensor_of(groups[g][a], g, a));
        counts.push_back(tensors.back().count);
      }
      groups_.emplace_back(DeviceTable<UpdateTensor>(tensors, counts, update_bytes(tensors)), gradient_bytes(tensors));
      if (optim::uses_norms(spec_)) groups_.back().norms.emplace(spec_, tensors, counts, choice_of(g));
    }
  }

  void search(size_t group) override {
    const Group& g = groups_[group];
    if (!stream_->takes_work() || g.table.empty()) return;
    DT_CUDA(cudaSetDevice(stream_->device()));
    Table<UpdateTensor> gradients = g.table.table();
    gradients.bytes = g.gradient_bytes;
    find_nonfinite(gradients, outcome_, stream_->get());
  }

  void update(size_t group, const optim::UpdateStep& step, const optim::UpdateStep& after_skip) override {
    Steps* const staged = static_cast<Steps*>(staged_[stream_->turn()].data()) + group;
    *staged = {scalars_of(step), scalars_of(after_skip)};
    const Group& g = groups_[group];
    if (!stream_->takes_work() || g.table.empty()) return;
    DT_CUDA(cudaSetDevice(stream_->device()));
    const cudaStream_t stream = stream_->get();
    const DeviceSpans::Span span(stream_->spans(), DeviceSpans::Track::kStore, stream, "update");
    DT_CUDA(cudaMemcpyAsync(steps_of(group), staged, sizeof(Steps), cudaMemcpyHostToDevice, stream));
    cuda::update({.rule = rule_,
                  .table = g.table.table(),
                  .scalars = scalars_,
                  .momentum = spec_.momentum,
                  .step = choice_of(group),
                  .nonfinite = &outcome_->nonfinite,
                  .norm_rates = g.norms ? g.norms->find(stream) : nullptr},
                 stream);
  }

  std::span<float> state(size_t group, size_t array, size_t slot) override {
    const Place& place = places_[group][array];
    return {static_cast<float*>(state_.at(place.offset + slot * padded(place.count * sizeof(float)))), place.count};
  }

 private:
  struct Group {
    Group(DeviceTable<UpdateTensor> table, int64_t gradient_bytes)
        : table(std::move(table)), gradient_bytes(gradient_bytes) {}
    DeviceTable<UpdateTensor> table;
    int64_t gradient_bytes;
    std::optional<GroupNorms> norms;  // set for a rule that uses norms
  };

  using Steps = std::array<StepScalars, 2>;  // as StepChoice::scalars

  [[nodiscard]] StepScalars scalars_of(const optim::UpdateStep& step) const {
    return {.learning_rate = step.learning_rate,
            .correction = optim::rate_correction(spec_, step.updates),
            .gradient_scale = step.gradient_scale,
            .momentum_factor = optim::momentum_factor(spec_, step.rate_change),
            .noise = optim::noise_of_update(spec_, step.updates),
            .applies = optim::applies(spec_, step.updates)};
  }
  Steps* steps_of(size_t group) { return static_cast<Steps*>(steps_.at(0)) + group; }
  StepChoice choice_of(size_t group) { return {steps_of(group)->data(), &outcome_->last_skipped}; }

  // Allocates the optimizer's state for all arrays. It is initially zero, because DeviceMemory is cleared.
  void place_state(const std::vector<std::vector<optim::LearnedArray>>& groups) {
    size_t bytes = 0;
    places_.assign(groups.size(), {});
    for (size_t g = 0; g < groups.size() && slots_ > 0; g++) {
      for (const optim::LearnedArray& array : groups[g]) {
        places_[g].push_back({bytes, array.weight.size()});
        bytes += slots_ * padded(array.weight.size_bytes());
      }
    }
    state_ = DeviceMemory(bytes);
  }

  // The learning rate and the weight decay stay float64 here: the kernel rounds them to float32 where optim::update
  // does.
  [[nodiscard]] UpdateTensor tensor_of(const optim::LearnedArray& array, size_t group, size_t index) {
    UpdateTensor tensor{.weight = array.weight.data(),
                        .gradient = array.gradient.data(),
                        .count = static_cast<int64_t>(array.weight.size()),
                        .learning_rate = array.multipliers.learning_rate,
                        .weight_decay = spec_.weight_decay * array.multipliers.weight_decay,
                        .array = array.part.array,
                        .begin = array.part.begin,
                        .adapts = array.multipliers.adapts};
    for (size_t slot = 0; slot < slots_; slot++) tensor.state[slot] = state(group, index, slot).data();
    return tensor;
  }

  struct Place {
    size_t offset = 0, count = 0;  // offset in state_ in bytes, number of elements
  };

  const optim::OptimizerSpec spec_;
  const Rule rule_;
  const optim::Scalars scalars_;  // the scalars that do not change
  const size_t slots_;
  const std::shared_ptr<StoreStream> stream_;
  LossScale* const outcome_;                // in device memory
  std::vector<std::vector<Place>> places_;  // indexed by group, then array
  DeviceMemory state_, steps_;
  std::array<PinnedMemory, StoreStream::kTurns> staged_;  // indexed by turn: Steps for each group
  std::vector<Group> groups_;
};

}  // namespace

Result<std::unique_ptr<optim::ArrayOptimizer>> make_device_optimizer(exec::Executor& executor,
                                                                     const optim::OptimizerSpec& spec) {
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(spec));
  auto& of_device = dynamic_cast<CudaExecutor&>(executor);
  return std::make_unique<DeviceOptimizer>(spec, kernel_rule(optim::rule_name(spec)), slots.size(),
                                           of_device.store_stream(), of_device.outcome());
}

}  // namespace dtrain::cuda
