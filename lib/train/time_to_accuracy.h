// --log-time-to: when an accuracy was reached for the first time. R-G12.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::train {

struct TimeToAccuracy {
  double accuracy = 0;   // the level
  double seconds = 0;    // since training began in this process
  uint64_t samples = 0;  // of all workers, applied since the start of the run
};

// The levels are every, 2 every, ... up to 1.
class AccuracyTimes {
 public:
  explicit AccuracyTimes(double every) : every_(every) {}  // 0: no levels

  // An accuracy was measured: the levels that it has reached first, in order; valid until the next call. One that is
  // not a number reaches none.
  std::span<const TimeToAccuracy> note(double accuracy, double seconds, uint64_t samples);
  [[nodiscard]] const std::vector<TimeToAccuracy>& all() const { return reached_; }

 private:
  double every_;
  std::vector<TimeToAccuracy> reached_;
};

}  // namespace dtrain::train
