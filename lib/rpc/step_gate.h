// The gate that the training thread passes before each step and that the control thread closes. When a job is asked to
// stop, each worker stops before a step that sync/membership.h chooses. A worker that is asked to leave stops before
// its next step.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace dtrain::rpc {

class StepGate {
 public:
  explicit StepGate(Waits& waits) : waits_(waits) {}

  // For the training thread. True if it may begin `step`, false if it must end before that step. Blocks while the gate
  // is held. Returns the job's error once there is one.
  Result<bool> may_begin(uint64_t step);

  // For the control thread: holds the gate, so that no further step begins. Returns the number of steps that have
  // begun.
  uint64_t hold();
  // Opens the gate for the steps 0 .. steps - 1, and for none after them.
  void stop_after(uint64_t steps);
  // Opens the gate for no further step.
  void leave();
  void fail(Error error);
  [[nodiscard]] uint64_t steps_begun() const;
  // Whether may_begin() has returned false because of leave().
  [[nodiscard]] bool has_left() const;

 private:
  Waits& waits_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;
  bool held_ DT_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> stop_after_ DT_GUARDED_BY(mutex_);
  bool must_leave_ DT_GUARDED_BY(mutex_) = false;
  bool has_left_ DT_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
