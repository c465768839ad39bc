// How long the steps of a running job take: a job that is stopped gets time to end its step.
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

  // The scheduler has reported that the job is at this step.
  void at(int64_t step, Clock::time_point now) {
    if (since_ && step == step_) return;
    longest_ = longest(now);
    step_ = step;
    since_ = now;
  }
  // The longest step so far, including the one in progress.
  [[nodiscard]] Clock::duration longest(Clock::time_point now) const {
    return since_ ? std::max(longest_, now - *since_) : longest_;
  }

 private:
  int64_t step_ = 0;
  std::optional<Clock::time_point> since_;
  Clock::duration longest_{0};
};

}  // namespace dtrain::launch
