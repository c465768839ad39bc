#include "rpc/step_gate.h"

#include <algorithm>
#include <utility>

namespace dtrain::rpc {

// Takes a mutex before each step. An uncontended one costs about 20 ns, and a step takes at least a millisecond.
Result<bool> StepGate::may_begin(uint64_t step) {
  const MutexLock lock(mutex_);
  // A held step waits until the scheduler has decided where to stop. The wait needs no deadline: if the scheduler is
  // lost, the heartbeats notice it and call fail().
  if (held_ && !stop_after_ && !must_leave_ && !error_) {
    const Waits::Wait wait(waits_, [step] { return fmt::format("the step to stop after, before step {}", step); });
    changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return stop_after_ || must_leave_ || error_; });
  }
  if (error_) return tl::unexpected(*error_);
  has_left_ = has_left_ || must_leave_;
  if (has_left_) return false;
  if (stop_after_ && step >= *stop_after_) return false;
  begun_ = std::max(begun_, step + 1);
  return true;
}

uint64_t StepGate::hold() {
  const MutexLock lock(mutex_);
  held_ = true;
  return begun_;
}

void StepGate::stop_after(uint64_t steps) {
  const MutexLock lock(mutex_);
  stop_after_ = steps;
  changed_.notify_all();
}

void StepGate::leave() {
  const MutexLock lock(mutex_);
  must_leave_ = true;
  changed_.notify_all();
}

bool StepGate::has_left() const {
  const MutexLock lock(mutex_);
  return has_left_;
}

void StepGate::fail(Error error) {
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

uint64_t StepGate::steps_begun() const {
  const MutexLock lock(mutex_);
  return begun_;
}

}  // namespace dtrain::rpc
