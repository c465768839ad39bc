// What --inject does to the steps of a process, for tests: it lengthens every step, or kills the process at one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/waits.h"

namespace dtrain {

// kill=ROLE:RANK@step:N
class KillSwitch {
 public:
  // nullopt: never.
  explicit KillSwitch(std::optional<uint64_t> step) : step_(step) {}
  // The process is at `step`. From that of the switch on (steps may be skipped) it ends here by SIGKILL, as one that
  // the system kills: no goodbye, no file completed.
  void reached(uint64_t step) const;

 private:
  std::optional<uint64_t> step_;
};

// step-ms=MS. One thread waits, any may cancel.
class Pacer {
 public:
  // 0: no wait. `waits` must outlive it.
  Pacer(std::chrono::duration<double, std::milli> step_min, Waits& waits) : step_min_(step_min), waits_(waits) {}
  // Returns when that time has passed since `begin`, the step's beginning; or with the error of cancel.
  Result<> wait(SteadyTime begin);
  // Ends the wait, open or to come. The first one counts.
  void cancel(Error error);

 private:
  const std::chrono::duration<double, std::milli> step_min_;
  Waits& waits_;
  std::mutex mutex_;
  std::condition_variable cancelled_;
  std::optional<Error> error_;
};

}  // namespace dtrain
