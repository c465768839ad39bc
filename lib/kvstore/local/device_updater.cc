#include "kvstore/local/device_updater.h"

#include <algorithm>
#include <functional>

#include "kvstore/training_state.h"

namespace dtrain::kvstore {
namespace {

// 256 KiB of weights: large enough to be worth a thread, small enough to share an array out evenly.
constexpr size_t kTaskElements = 1 << 16;

}  // namespace

Result<std::unique_ptr<DeviceUpdater>> DeviceUpdater::create(DeviceUpdaterOptions options) {
  DT_TRY(std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  return std::unique_ptr<DeviceUpdater>(new DeviceUpdater(std::move(options), std::move(slots)));
}

DeviceUpdater::DeviceUpdater(DeviceUpdaterOptions options, std::vector<std::string> slots)
    : options_(std::move(options)), slots_(std::move(slots)), pool_(std::max(options_.threads, 1), "update") {}

Result<> DeviceUpdater::initialize(const ParameterView& view, const TrainingState& state) {
  view_ = view;
  state_.clear();
  for (const ParameterSpan& parameter : view_.parameters) {
    state_.emplace_back();
    for (size_t slot = 0; slot < slots_.size(); slot++) state_.back().emplace_back(parameter.weight.size());
  }
  plan_tasks();
  counters_.assign(tasks_.size(), {.samples = state.samples, .updates = state.updates});
  return load_state(state);
}

void DeviceUpdater::plan_tasks() {
  tasks_.assign(options_.bucket_begin.size(), {});
  size_t bucket = 0;
  for (size_t p = 0; p < view_.parameters.size(); p++) {
    while (bucket + 1 < tasks_.size() && options_.bucket_begin[bucket + 1] <= p) bucket++;
    add_tasks(p, tasks_[bucket]);
  }
}

void DeviceUpdater::add_tasks(size_t parameter, std::vector<Task>& tasks) {
  const ParameterSpan& array = view_.parameters[parameter];
  for (size_t begin = 0; begin < array.weight.size(); begin += kTaskElements) {
    const size_t count = std::min(kTaskElements, array.weight.size() - begin);
    tasks.push_back({.multipliers = optim::multipliers_of(array.name),
                     .weight = array.weight.subspan(begin, count),
                     .gradient = array.gradient.subspan(begin, count),
                     .state = {}});
    for (Buffer<float>& slot : state_[parameter]) tasks.back().state.push_back(slot.part(begin, count));
  }
}

Result<> DeviceUpdater::load_state(const TrainingState& state) {
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  for (size_t p = 0; p < slots.size(); p++) {
    for (size_t slot = 0; slot < slots[p].size(); slot++) {
      std::copy(slots[p][slot].begin(), slots[p][slot].end(), state_[p][slot].data());
    }
  }
  return {};
}

Result<> DeviceUpdater::gradient_ready(size_t bucket, uint64_t, uint32_t samples) {
  if (std::optional<Error> error = this->error()) return tl::unexpected(std::move(*error));
  flush_denormals();
  Counters& counters = counters_[bucket];
  const std::vector<Task>& tasks = tasks_[bucket];
  const auto update = [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const optim::UpdateStep step = update_step(options_.rule, task.multipliers, counters.samples, samples);
    optim::update(options_.rule.optimizer, step, task.weight, task.gradient, task.state);
  };
  pool_.parallel_for(static_cast<int64_t>(tasks.size()), std::ref(update));  // a reference: no memory is taken
  counters.samples += samples;
  counters.updates++;
  return {};
}

Result<> DeviceUpdater::weights_wait(size_t) {
  if (std::optional<Error> error = this->error()) return tl::unexpected(std::move(*error));
  return {};
}

Result<TrainingState> DeviceUpdater::state() {
  TrainingState state;
  if (!counters_.empty()) {
    state.samples = counters_.front().samples;
    state.updates = counters_.front().updates;
  }
  for (size_t p = 0; p < state_.size(); p++) {
    for (size_t slot = 0; slot < slots_.size(); slot++) {
      const std::span<const float> values = state_[p][slot].span();
      const ParameterSpan& parameter = view_.parameters[p];
      state.slots.push_back({slot_name(parameter, slots_[slot]), parameter.shape, {values.begin(), values.end()}});
    }
  }
  return state;
}

void DeviceUpdater::cancel(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

std::optional<Error> DeviceUpdater::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace dtrain::kvstore
