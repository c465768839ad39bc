// Where the training thread asks before each step, and where the control thread can hold it: the workers of a job that
// is asked to stop end each before a step that sync/membership.h says.
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

  // Training thread: true: begin `step`. false: end before it. Waits while held. The job's error once there is one.
  Result<bool> may_begin(uint64_t step);

  // Control thread: from now on no step begins that has not begun. Returns how many have.
  uint64_t hold();
  // Steps 0 .. steps - 1 are to be done, none later.
  void stop_after(uint64_t steps);
  void fail(Error error);
  [[nodiscard]] uint64_t steps_begun() const;

 private:
  Waits& waits_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;
  bool held_ DT_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> stop_after_ DT_GUARDED_BY(mutex_);
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
