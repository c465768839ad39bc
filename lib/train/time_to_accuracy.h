// --log-time-to: records when each accuracy level was first reached.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::train {

struct TimeToAccuracy {
  double accuracy = 0;   // the level that was reached
  double seconds = 0;    // time since training began in this process
  uint64_t samples = 0;  // samples of all workers, applied since the start of the run
};

// Records when the accuracy first reached each level. The levels are `every`, 2 * `every`, ... up to 1, where `every`
// is the constructor's argument.
class AccuracyTimes {
 public:
  // `every`: the distance between levels; 0: there are no levels.
  explicit AccuracyTimes(double every) : every_(every) {}

  // Records a measured accuracy. Returns the levels that are reached for the first time, in ascending order; valid
  // until the next call. NaN reaches no level.
  std::span<const TimeToAccuracy> note(double accuracy, double seconds, uint64_t samples);
  [[nodiscard]] const std::vector<TimeToAccuracy>& all() const { return reached_; }

 private:
  double every_;
  std::vector<TimeToAccuracy> reached_;
};

}  // namespace dtrain::train
