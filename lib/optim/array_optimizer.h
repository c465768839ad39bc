// One rule over the arrays of a device, where they lie: how a store beside the devices updates. The host's form is
// here; the form of a device in cuda.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "optim/optimizer.h"

namespace dtrain::optim {

// An array that learns, or a part of one, in the memory that the optimizer works in.
struct LearnedArray {
  Multipliers multipliers = {};
  std::span<float> weight;
  std::span<const float> gradient;  // of the weight's size
};

// Owns the state of its arrays (state_slots), which lies in their memory. One thread at a time calls it. The results
// are those of optim::update, to the bit, whatever the form.
class ArrayOptimizer {
 public:
  virtual ~ArrayOptimizer() = default;

  // The arrays, in groups that are updated at once; they outlive what follows. Their state is zero.
  virtual void bind(const std::vector<std::vector<LearnedArray>>& groups) = 0;
  // New weights for the arrays of a group. Of the step's multipliers nothing counts: each array has its own. Takes no
  // memory. A device only queues it.
  virtual void update(size_t group, const UpdateStep& step) = 0;
  // A slot of the state of an array of a group, of the array's size.
  virtual std::span<float> state(size_t group, size_t array, size_t slot) = 0;
};

// On the host, by `threads` threads, of which the caller's is one. Code::kUsage: an unknown rule.
Result<std::unique_ptr<ArrayOptimizer>> make_host_optimizer(const OptimizerSpec& spec, int threads);

}  // namespace dtrain::optim
