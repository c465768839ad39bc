// The gate that the training thread passes before each step and that the control thread closes. When a job is asked to
// stop, or its workers are to meet at a border, each worker stops before a step that sync/membership.h chooses. A
// worker that is asked to leave stops before its next step.
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

  // For the training thread: waits until the scheduler has decided where to stop, and then stops here, because a hold
  // is certain to come and the worker cannot continue before it. As if may_begin() had returned false.
  Result<> await_border();
  // The run has gone to this step, which may be an earlier one: no later step counts as begun. To be called between
  // steps.
  void go_to(uint64_t step);

  // The number of the border at which the worker has arrived: may_begin() has returned false because of it, and
  // pass_border() was not called since. 0: it has not.
  [[nodiscard]] uint64_t border() const;
  // The workers have met at the border with this number, or at a later place, so no step is held back because of it
  // anymore.
  void pass_border(uint64_t number);

  // For the control thread: holds the gate, so that no further step begins. Returns the number of steps that have
  // begun. Each hold has a larger number than the one before; a repeated one has no effect.
  uint64_t hold(uint64_t number);
  // Opens the gate for the steps 0 .. steps - 1, and for none after them, until pass_border() if `meets`.
  struct Last {
    uint64_t number = 0;  // of the hold
    uint64_t steps = 0;
    bool meets = false;
  };
  void stop_after(const Last& last);
  // Opens the gate for no further step; with `at_border`, only from the next border on.
  void leave(bool at_border);
  void fail(Error error);
  [[nodiscard]] uint64_t steps_begun() const;
  // Whether may_begin() has returned false because of leave().
  [[nodiscard]] bool has_left() const;

 private:
  Result<> await_decision(uint64_t step) DT_REQUIRES(mutex_);

  Waits& waits_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;
  bool must_wait_ DT_GUARDED_BY(mutex_) = false;  // whether the training thread is in await_border()
  uint64_t held_ DT_GUARDED_BY(mutex_) = 0;       // number of the newest hold
  uint64_t passed_ DT_GUARDED_BY(mutex_) = 0;     // number of the last border that was passed
  uint64_t border_ DT_GUARDED_BY(mutex_) = 0;
  std::optional<Last> last_ DT_GUARDED_BY(mutex_);  // of the newest hold; nullopt: not known yet
  bool must_leave_ DT_GUARDED_BY(mutex_) = false;
  bool leaves_at_border_ DT_GUARDED_BY(mutex_) = false;  // whether must_leave_ takes effect only at a border
  bool has_left_ DT_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
