// A store turns gradients into new weights. The step loop knows this interface and nothing of what is behind it: the
// devices of this process (devices/), or servers over a network (dist/), or the one before the other.
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

// A bucket on one of the worker's devices.
struct DeviceBucket {
  size_t bucket = 0;
  size_t device = 0;
  DeviceBucket(size_t bucket, size_t device = 0) : bucket(bucket), device(device) {}  // implicit: most have one device
};

// The step loop's thread calls it, but for cancel; gradient_ready and weights_wait each device's own thread.
class Store {
 public:
  virtual ~Store() = default;

  // Before the first step, on every worker: rank 0's weights, statistics and state (empty: zeros) become everybody's,
  // on all devices. `devices` are the worker's, the weights in the first one's. When it returns, all views' weights and
  // statistics hold them. The counters of `state` are the same on every worker.
  virtual Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) = 0;

  // The number of the step that comes next, between steps: counted on from the updates of the state that initialize was
  // given, and past those that the others have ended without this worker. Waits only where the scheme lets them do so.
  virtual Result<uint64_t> next_step() = 0;
  // The bucket's gradients of `step`, the next one, are complete on the device (executor's GradientReady). Returns at
  // once. `samples`: of this worker's step, on all its devices together.
  virtual Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) = 0;
  // The device has left out the last step by itself, of which all buckets were given: it counts for nothing. Only of a
  // worker that is alone and has one device.
  virtual void take_back(uint32_t samples) { DT_CHECK(false, "{} samples that others have added already", samples); }
  // Returns when the bucket's weights on the device are those that the step after the last pushed one begins with
  // (WeightsWait).
  virtual Result<> weights_wait(DeviceBucket at) = 0;

  // Of all workers since the start of the job, applied to the weights that the next step begins with; waits for these.
  virtual Result<uint64_t> samples_applied() = 0;

  // What follows is called by all workers at the same point (an epoch's end, a stop), with no gradient on its way.
  //
  // One set of moving statistics for everybody: the mean of a worker's devices, and of all workers the mean weighted by
  // the `samples` that each has seen since the last time.
  virtual Result<> share_statistics(uint64_t samples) = 0;
  // The same weights for everybody: the newest.
  virtual Result<> refresh() = 0;
  // New groups of workers, by rank, where workers are in groups (GSP): rank 0 calls it when all have the newest
  // weights. It returns the number of the step that comes next for everybody, which the others' stores are then told.
  virtual Result<uint64_t> regroup(std::span<const uint32_t> group_of) {
    DT_CHECK(false, "{} workers in groups, in a store without groups", group_of.size());
    return uint64_t{0};
  }
  virtual void go_on_with(uint64_t step) { DT_CHECK(false, "step {} of new groups, in a store without groups", step); }
  // The state that belongs to the weights: rank 0 calls it between steps, with no gradient on its way.
  virtual Result<TrainingState> state() = 0;

  // From any thread: every wait, open or to come, returns `error`. The first one counts.
  virtual void cancel(Error error) = 0;
  [[nodiscard]] virtual StoreTimes times() const = 0;
};

}  // namespace dtrain::kvstore
