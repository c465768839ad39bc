#include "job/process/time_left.h"

#include <algorithm>
#include <cmath>

namespace dtrain::job {
namespace {

constexpr double kMemorySeconds = 60;  // time constant of the mean step time

double seconds_between(TimeLeft::Time begin, TimeLeft::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The epoch of the last step, counted from 0. Validation after an epoch belongs to that epoch.
int64_t epoch_of(int64_t steps, int64_t steps_of_epoch) {
  return std::max<int64_t>(0, steps - 1) / steps_of_epoch;
}

}  // namespace

std::optional<double> TimeLeft::update(const JobPace& pace, Time now) {
  if (pace.steps_per_s <= 0) return left_s_;
  const double passed = seconds_between(last_, now);
  if (!left_s_) {
    began_ = now;
    first_steps_ = pace.steps;
    add_steps(1, pace.steps_per_s);
    in_steps_s_ = 0;  // the step that add_steps() has counted ended before began_, so it does not count here
  } else if (pace.steps == last_steps_) {
    left_s_ = std::max(0.0, *left_s_ - passed);
    last_ = now;
    return left_s_;
  } else {
    add_steps(static_cast<double>(std::max<int64_t>(0, pace.steps - last_steps_)), pace.steps_per_s);
  }
  last_ = now;
  last_steps_ = pace.steps;
  left_s_ = estimate(pace, now);
  return left_s_;
}

void TimeLeft::add_steps(double steps, double steps_per_s) {
  const double seconds = steps / steps_per_s;
  const double keep = std::exp(-seconds / kMemorySeconds);
  recent_s_ = keep * recent_s_ + seconds;
  recent_steps_ = keep * recent_steps_ + steps;
  in_steps_s_ += seconds;
}

double TimeLeft::estimate(const JobPace& pace, Time now) const {
  const int64_t epoch = epoch_of(pace.steps, pace.steps_of_epoch);
  const auto ended = static_cast<double>(epoch - epoch_of(first_steps_, pace.steps_of_epoch));
  const double between_s = std::max(0.0, seconds_between(began_, now) - in_steps_s_);
  const double of_end_s = ended > 0 ? between_s / ended : 0;
  const auto steps_left = static_cast<double>(std::max<int64_t>(0, pace.epochs * pace.steps_of_epoch - pace.steps));
  const auto ends_left = static_cast<double>(std::max<int64_t>(0, pace.epochs - epoch));
  return steps_left * recent_s_ / recent_steps_ + ends_left * of_end_s;
}

}  // namespace dtrain::job
