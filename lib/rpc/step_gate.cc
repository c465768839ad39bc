#include "rpc/step_gate.h"

#include <algorithm>
#include <utility>

namespace dtrain::rpc {

// A held step waits until the scheduler has decided where to stop. The wait needs no deadline: if the scheduler is
// lost, the heartbeats notice it and call fail().
Result<> StepGate::await_decision(uint64_t step) {
  const auto leaves_now = [this]() DT_REQUIRES(mutex_) { return must_leave_ && !leaves_at_border_; };
  const auto may_look = [&]() DT_REQUIRES(mutex_) {
    return (held_ <= passed_ && !must_wait_) || (held_ > passed_ && last_) || leaves_now() || error_;
  };
  if (!may_look()) {
    const Waits::Wait wait(waits_, [step] { return fmt::format("the step to stop after, before step {}", step); });
    changed_.wait(mutex_, may_look);
  }
  if (error_) return tl::unexpected(*error_);
  has_left_ = has_left_ || leaves_now();
  return {};
}

// Takes a mutex before each step. An uncontended one costs about 20 ns, and a step takes at least a millisecond.
Result<bool> StepGate::may_begin(uint64_t step) {
  const MutexLock lock(mutex_);
  DT_TRY_VOID(await_decision(step));
  if (has_left_) return false;
  if (held_ > passed_ && step >= last_->steps) {
    if (last_->meets) border_ = last_->number;
    has_left_ = must_leave_ && last_->meets;
    return false;
  }
  begun_ = std::max(begun_, step + 1);
  return true;
}

Result<> StepGate::await_border() {
  const MutexLock lock(mutex_);
  must_wait_ = true;
  const Result<> decided = await_decision(begun_);
  must_wait_ = false;
  DT_TRY_VOID(decided);
  if (!has_left_ && last_->meets) border_ = last_->number;
  return {};
}

void StepGate::go_to(uint64_t step) {
  const MutexLock lock(mutex_);
  begun_ = step;
}

uint64_t StepGate::border() const {
  const MutexLock lock(mutex_);
  return border_;
}

void StepGate::pass_border(uint64_t number) {
  const MutexLock lock(mutex_);
  passed_ = std::max(passed_, number);
  border_ = 0;
  changed_.notify_all();
}

uint64_t StepGate::hold(uint64_t number) {
  const MutexLock lock(mutex_);
  if (number > held_) last_.reset();
  held_ = std::max(held_, number);
  return begun_;
}

void StepGate::stop_after(const Last& last) {
  const MutexLock lock(mutex_);
  if (last.number < held_) return;
  held_ = last.number;
  last_ = last;
  changed_.notify_all();
}

void StepGate::leave(bool at_border) {
  const MutexLock lock(mutex_);
  must_leave_ = true;
  leaves_at_border_ = at_border;
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
