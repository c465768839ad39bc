#include "optim/array_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/thread.h"
#include "optim/norms.h"
#include "tensor/buffer.h"

namespace dtrain::optim {
namespace {

// The size of a task: 256 KiB of weights, large enough to justify a thread, small enough to divide an array evenly.
constexpr size_t kTaskElements = kNormBlock;

class HostOptimizer final : public ArrayOptimizer {
 public:
  HostOptimizer(OptimizerSpec spec, size_t slots, int threads)
      : spec_(std::move(spec)),
        slots_(slots),
        uses_norms_(optim::uses_norms(spec_)),
        accumulated_(accumulated_updates(spec_)),
        pool_(std::max(threads, 1), "update") {}

  void bind(const std::vector<std::vector<LearnedArray>>& groups) override {
    groups_.clear();
    groups_.resize(groups.size());
    for (size_t g = 0; g < groups.size(); g++) {
      for (const LearnedArray& array : groups[g]) add(groups_[g], array);
    }
  }

  void update(size_t group, const UpdateStep& step, const UpdateStep& /*after_skip*/) override {
    flush_denormals();
    if (uses_norms_ && applies(spec_, step.updates)) measure(groups_[group], step.gradient_scale);
    const std::vector<Task>& tasks = groups_[group].tasks;
    const auto one = [&](int64_t i) {
      const Task& task = tasks[static_cast<size_t>(i)];
      UpdateStep own = step;
      own.multipliers = task.array.multipliers;
      own.part = task.array.part;
      own.norms = groups_[group].norms[task.number];
      optim::update(spec_, own, task.array.weight, task.array.gradient, task.state);
    };
    // Passed by reference, so that nothing is allocated.
    pool_.parallel_for(static_cast<int64_t>(tasks.size()), std::ref(one));
  }

  std::span<float> state(size_t group, size_t array, size_t slot) override {
    return groups_[group].state[array * slots_ + slot].span();
  }

 private:
  // The part of an array that one thread updates.
  struct Task {
    LearnedArray array;
    std::vector<std::span<float>> state;  // the part's optimizer state, indexed by slot
    size_t number = 0;                    // index of the array in the group
    double weight_squares = 0, gradient_squares = 0;
  };
  struct Group {
    std::vector<Task> tasks;
    std::vector<Norms> norms;          // norms of each array, indexed by array; zeros if the rule does not use them
    std::vector<Buffer<float>> state;  // optimizer state of each array, indexed by array, then slot
  };

  // Computes the norms of the group's arrays from the sums of their tasks, which are added in order. `scale`: factor on
  // the gradients.
  void measure(Group& group, double scale) {
    const auto one = [&](int64_t i) {
      Task& task = group.tasks[static_cast<size_t>(i)];
      task.weight_squares = sum_of_squares(task.array.weight);
      task.gradient_squares = accumulated_ == 0
                                  ? sum_of_squares(task.array.gradient)
                                  : sum_of_squares(task.state.back(), static_cast<float>(scale), task.array.gradient);
    };
    pool_.parallel_for(static_cast<int64_t>(group.tasks.size()), std::ref(one));
    std::ranges::fill(group.norms, Norms{});
    for (const Task& task : group.tasks) {
      group.norms[task.number].weight += task.weight_squares;
      group.norms[task.number].gradient += task.gradient_squares;
    }
    const double divisor = accumulated_ == 0 ? 1 : static_cast<double>(accumulated_) * scale;
    for (Norms& norms : group.norms) norms = {std::sqrt(norms.weight), std::sqrt(norms.gradient) / divisor};
  }

  void add(Group& group, const LearnedArray& array) const {
    const size_t number = group.norms.size();
    group.norms.emplace_back();
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
      task.number = number;
      for (size_t slot = 0; slot < slots_; slot++) task.state.push_back(group.state[first + slot].part(at, size));
    }
  }

  const OptimizerSpec spec_;
  const size_t slots_;  // number of slots per array
  const bool uses_norms_;
  // The number of gradients in the rule's sum; the norm is that of their mean. 0: the rule keeps no sum.
  const uint64_t accumulated_;
  ThreadPool pool_;
  std::vector<Group> groups_;
};

}  // namespace

Result<std::unique_ptr<ArrayOptimizer>> make_host_optimizer(const OptimizerSpec& spec, int threads) {
  DT_TRY(const std::vector<std::string> slots, state_slots(spec));
  return std::make_unique<HostOptimizer>(spec, slots.size(), threads);
}

}  // namespace dtrain::optim
