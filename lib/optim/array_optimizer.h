// Applies one update rule to the arrays of a device in the device's own memory, for stores that update on the devices.
// This file has the implementation for the host; cuda/optimizer.h has the one for GPUs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "optim/optimizer.h"

namespace dtrain::optim {

// A learned array, or a part of an array, in the memory in which the optimizer works. For a rule that uses norms, it
// must be a whole array.
struct LearnedArray {
  Multipliers multipliers = {};
  std::span<float> weight;
  std::span<const float> gradient;  // has the same size as the weight
  ArrayPart part = {};              // which elements of the network this array contains
};

// Owns the state of its arrays (state_slots), in the same memory as the arrays. Not thread-safe. All implementations
// give the same results as optim::update, bit for bit.
class ArrayOptimizer {
 public:
  virtual ~ArrayOptimizer() = default;

  // Sets the arrays, in groups that are updated together. The optimizer borrows them for as long as it is used. Their
  // state is initially zero.
  virtual void bind(const std::vector<std::vector<LearnedArray>>& groups) = 0;
  // On a device: queues a search of the group's gradients. If one is not finite, the following updates of the step
  // change nothing. On the host, whoever calls update() has searched them, so this does nothing.
  virtual void search(size_t group) { static_cast<void>(group); }
  // Updates the weights of a group's arrays. Ignores step.multipliers and step.part, because each array has its own.
  // Allocates no memory. On a device the update is only queued.
  void update(size_t group, const UpdateStep& step) { update(group, step, step); }
  // On a device that may skip steps, if the caller does not know yet whether the device has skipped the step before:
  // the device updates with `after_skip` if it has, and otherwise with `step`. Elsewhere both must be the same.
  virtual void update(size_t group, const UpdateStep& step, const UpdateStep& after_skip) = 0;
  // One slot of the state of an array in a group. It has the size of the array.
  virtual std::span<float> state(size_t group, size_t array, size_t slot) = 0;
};

// Creates an optimizer for the host, with `threads` threads including the caller's. Code::kUsage for an unknown rule.
Result<std::unique_ptr<ArrayOptimizer>> make_host_optimizer(const OptimizerSpec& spec, int threads);

}  // namespace dtrain::optim
