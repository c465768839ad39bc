// How far a process's clock is from the scheduler's, from the round trips of its heartbeats.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.h"

namespace dtrain::telemetry {

// Any thread may call it. All times are microseconds.
//
// A round trip says that the scheduler's clock showed its time at some moment between sending and receiving. Half way
// is the best guess, wrong by at most half of the round trip. The shortest round trip of the last minutes is therefore
// believed; older ones are forgotten, because clocks drift.
class ClockOffset {
 public:
  struct Estimate {
    int64_t offset_us = 0;  // to add to this process's clock
    int64_t error_us = 0;   // at most
  };
  static constexpr int64_t kMemoryUs = 300'000'000;
  static constexpr size_t kRoundTripsMax = 512;

  // `sent` and `received` are readings of this process's clock, `there` is one of the scheduler's in between. A round
  // trip of negative length is left out.
  void add(int64_t sent, int64_t there, int64_t received) DT_EXCLUDES(mutex_);
  // nullopt: there was no round trip.
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
