#include "optim/array_optimizer.h"

#include <algorithm>
#include <functional>

#include "base/thread.h"
#include "tensor/buffer.h"

namespace dtrain::optim {
namespace {

// 256 KiB of weights: large enough to be worth a thread, small enough to divide an array evenly.
constexpr size_t kTaskElements = 1 << 16;

class HostOptimizer final : public ArrayOptimizer {
 public:
  HostOptimizer(OptimizerSpec spec, size_t slots, int threads)
      : spec_(std::move(spec)), slots_(slots), pool_(std::max(threads, 1), "update") {}

  void bind(const std::vector<std::vector<LearnedArray>>& groups) override {
    groups_.clear();
    groups_.resize(groups.size());
    for (size_t g = 0; g < groups.size(); g++) {
      for (const LearnedArray& array : groups[g]) add(groups_[g], array);
    }
  }

  void update(size_t group, const UpdateStep& step) override {
    flush_denormals();
    const std::vector<Task>& tasks = groups_[group].tasks;
    const auto one = [&](int64_t i) {
      const Task& task = tasks[static_cast<size_t>(i)];
      UpdateStep own = step;
      own.multipliers = task.array.multipliers;
      own.part = task.array.part;
      optim::update(spec_, own, task.array.weight, task.array.gradient, task.state);
    };
    pool_.parallel_for(static_cast<int64_t>(tasks.size()), std::ref(one));  // by reference, so nothing is allocated
  }

  std::span<float> state(size_t group, size_t array, size_t slot) override {
    return groups_[group].state[array * slots_ + slot].span();
  }

 private:
  // The part of an array that one thread updates.
  struct Task {
    LearnedArray array;
    std::vector<std::span<float>> state;  // by slot
  };
  struct Group {
    std::vector<Task> tasks;
    std::vector<Buffer<float>> state;  // by array, then slot
  };

  void add(Group& group, const LearnedArray& array) const {
    const size_t count = array.weight.size();
    const size_t first = group.state.size();
    for (size_t slot = 0; slot < slots_; slot++) group.state.emplace_back(count);
    for (size_t at = 0; at < count; at += kTaskElements) {
      const size_t size = std::min(kTaskElements, count - at);
      Task& task = group.tasks.emplace_back();
      task.array = {.multipliers = array.multipliers,
                    .weight = array.weight.subspan(at, size),
                    .gradient = array.gradient.subspan(at, size),
                    .part = {array.part.array, array.part.begin + at}};
      for (size_t slot = 0; slot < slots_; slot++) task.state.push_back(group.state[first + slot].part(at, size));
    }
  }

  const OptimizerSpec spec_;
  const size_t slots_;  // per array
  ThreadPool pool_;
  std::vector<Group> groups_;
};

}  // namespace

Result<std::unique_ptr<ArrayOptimizer>> make_host_optimizer(const OptimizerSpec& spec, int threads) {
  DT_TRY(const std::vector<std::string> slots, state_slots(spec));
  return std::make_unique<HostOptimizer>(spec, slots.size(), threads);
}

}  // namespace dtrain::optim
