// The training progress of an array or of one of its slices.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtrain::kvstore {

struct Counters {
  uint64_t samples = 0;    // samples applied since the start of the job
  uint64_t updates = 0;    // updates made since the start of the job
  double rate_factor = 1;  // the schedule's learning rate is multiplied by this
};

// Sets the rate factor for all updates that begin when at least `from_samples` samples have been applied.
struct RateChange {
  double factor = 1;  // the factor, above 0
  uint64_t from_samples = 0;
};

inline bool is_rate_factor(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace dtrain::kvstore
