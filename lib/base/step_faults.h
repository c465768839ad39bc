// Implements, for tests, the part of --inject that concerns the steps of a process: lengthens every step, or kills the
// process at a given step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace dtrain {

// Implements kill=ROLE:RANK@step:N.
class KillSwitch {
 public:
  // `step`: the step at which the process kills itself; nullopt: never.
  explicit KillSwitch(std::optional<uint64_t> step) : step_(step) {}
  // To be called when the process reaches `step`; steps may be skipped. At the switch's step or a later one, the
  // process kills itself with SIGKILL, so that it ends without a message to its peers and without completing files.
  void reached(uint64_t step) const;

 private:
  std::optional<uint64_t> step_;
};

// Implements step-ms=MS. One thread waits; any thread may cancel.
class Pacer {
 public:
  // `step_min`: the minimum duration of a step; 0: no wait. `waits` must outlive the Pacer.
  Pacer(std::chrono::duration<double, std::milli> step_min, Waits& waits) : step_min_(step_min), waits_(waits) {}
  // Waits until the minimum duration has passed since `begin`, the beginning of the step. Fails with the error given to
  // cancel().
  Result<> wait(SteadyTime begin);
  // Makes the current wait and all later ones fail with `error`. Only the first call counts.
  void cancel(Error error);

 private:
  const std::chrono::duration<double, std::milli> step_min_;
  Waits& waits_;
  Mutex mutex_;
  ConditionVariable cancelled_;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain
