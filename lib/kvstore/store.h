// A store turns gradients into new weights. The step loop knows this interface and nothing of what is behind it: the
// optimiser beside the device (local/), or servers over a network (dist/).
//
// Keys are the indices of the parameters; the moving statistics follow them (key = parameters + index).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::kvstore {

// What a checkpoint needs besides weights: the optimiser's state of one consistent version.
struct TrainingState {
  std::vector<NamedArray> slots;  // "PARAMETER:SLOT" in canonical order
  uint64_t samples = 0;           // applied since the start: the position of the schedule
  uint64_t updates = 0;           // per parameter
};

struct StoreTimes {
  double wait_s = 0;  // the step loop stood still for the network
};

// One thread calls it (the step loop's), but for cancel.
class Store {
 public:
  virtual ~Store() = default;

  // Before the first step, on every worker: rank 0's weights, statistics and state (empty: zeros) become everybody's.
  // When it returns, the view's weights and statistics hold them.
  virtual Result<> initialize(const ParameterView& view, const TrainingState& state) = 0;

  // The bucket's gradients of `step` are complete (executor's GradientReady). Returns at once. Steps are counted on
  // from the updates of the state that initialize was given.
  virtual Result<> gradient_ready(size_t bucket, uint64_t step, uint32_t samples) = 0;
  // Returns when the bucket's weights are those that the step after the last pushed one begins with (WeightsWait).
  virtual Result<> weights_wait(size_t bucket) = 0;

  // Makes rank 0's moving statistics everybody's: called by all workers at the same point (an epoch's end).
  virtual Result<> share_statistics() = 0;
  // The state that belongs to the weights of weights_wait: rank 0 calls it between steps, with no gradient on its way.
  virtual Result<TrainingState> state() = 0;

  // From any thread: every wait, open or to come, returns `error`. The first one counts.
  virtual void cancel(Error error) = 0;
  [[nodiscard]] virtual StoreTimes times() const = 0;
};

}  // namespace dtrain::kvstore
