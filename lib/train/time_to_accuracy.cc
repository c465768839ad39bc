#include "train/time_to_accuracy.h"

#include <algorithm>

namespace dtrain::train {

std::span<const TimeToAccuracy> AccuracyTimes::note(double accuracy, double seconds, uint64_t samples) {
  // Tolerance: without it, 3 * 0.1, which is slightly more than 0.3, would not be reached by 0.3.
  constexpr double kRounding = 1e-9;
  const size_t before = reached_.size();
  while (every_ > 0) {
    const double level = every_ * static_cast<double>(reached_.size() + 1);
    if (level > 1 + kRounding || !(accuracy + kRounding >= level)) break;
    reached_.push_back({std::min(level, 1.0), seconds, samples});
  }
  return std::span(reached_).subspan(before);
}

}  // namespace dtrain::train
