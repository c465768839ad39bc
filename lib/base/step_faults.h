// Implements, for tests, the part of --inject that concerns a process as a whole: lengthens every step, or kills or
// stops the process at a given step or message.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace dtrain {

inline constexpr std::string_view kStepEvent = "step";

// A moment at which a process sends a signal to itself: SIGKILL, so that it ends without a message to its peers and
// without completing files, or SIGSTOP, so that it stands still until someone sends it SIGCONT.
struct FailPoint {
  std::string event = std::string(kStepEvent);  // kStepEvent or the name of a message
  uint64_t number = 0;  // the step, counted from 0; or the number of the message among those of this name, from 1
  double later_ms = 0;  // time after the event
  int signal = SIGKILL;
  bool operator==(const FailPoint&) const = default;
};

// Implements kill= and stop=. Any thread may call it.
class FailPoints {
 public:
  // From now on, these points have an effect, each once. The messages that have passed before count.
  void arm(std::vector<FailPoint> points) DT_EXCLUDES(mutex_);
  // To be called when the process reaches `step`; steps may be skipped. A point of an earlier step has its effect now.
  void reach_step(uint64_t step) DT_EXCLUDES(mutex_);
  // To be called when the process is about to send a message of this name, or has received one.
  void pass_message(std::string_view name) DT_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<FailPoint> points_ DT_GUARDED_BY(mutex_);  // that have had no effect yet
  std::map<std::string, uint64_t, std::less<>> passed_ DT_GUARDED_BY(mutex_);
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
