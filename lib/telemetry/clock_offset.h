// Estimates the offset of a process's clock from the scheduler's, from the round trips of its heartbeats.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.h"

namespace dtrain::telemetry {

// Any thread may call it. All times are microseconds.
//
// After a round trip it is known that the scheduler's clock showed the reported time at some moment between sending and
// receiving. The midpoint is the best guess, with an error of at most half the round trip. So the shortest round trip
// of the last minutes is used; older ones are discarded, because clocks drift.
class ClockOffset {
 public:
  struct Estimate {
    int64_t offset_us = 0;  // must be added to times of this process's clock
    int64_t error_us = 0;   // upper bound of the error
  };
  static constexpr int64_t kMemoryUs = 300'000'000;
  static constexpr size_t kRoundTripsMax = 512;

  // `sent` and `received` are readings of this process's clock; `there` is a reading of the scheduler's clock in
  // between. A round trip of negative length is ignored.
  void add(int64_t sent, int64_t there, int64_t received) DT_EXCLUDES(mutex_);
  // The best estimate of the offset; nullopt: there has been no round trip.
  [[nodiscard]] std::optional<Estimate> estimate() const DT_EXCLUDES(mutex_);

 private:
  struct RoundTrip {
    int64_t received = 0;
    int64_t length = 0;
    int64_t offset = 0;
  };
  mutable Mutex mutex_;
  std::deque<RoundTrip> round_trips_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::telemetry
