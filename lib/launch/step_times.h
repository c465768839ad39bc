// How long the steps of a running job take, so that a stopped job gets enough time to finish its step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace dtrain::launch {

// Measures how long the job's steps take, from the scheduler's reports.
class StepTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Called when the scheduler has reported that the job is at this step.
  void at(int64_t step, Clock::time_point now) {
    if (since_ && step == step_) return;
    if (since_) longest_ = std::max(longest_, now - *since_);
    step_ = step;
    since_ = now;
  }
  // The longest step so far. The current step counts too, but only up to a limit: there is no point in waiting for a
  // job that hangs.
  [[nodiscard]] Clock::duration longest(Clock::time_point now) const {
    if (!since_) return longest_;
    const Clock::duration most = longest_ > Clock::duration(0) ? kTimesLongest * longest_ : kFirstStepMax;
    return std::max(longest_, std::min(now - *since_, most));
  }

 private:
  static constexpr int kTimesLongest = 3;
  static constexpr std::chrono::minutes kFirstStepMax{1};

  int64_t step_ = 0;
  std::optional<Clock::time_point> since_;
  Clock::duration longest_{0};
};

}  // namespace dtrain::launch
