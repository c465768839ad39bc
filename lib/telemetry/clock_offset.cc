#include "telemetry/clock_offset.h"

#include <algorithm>

namespace dtrain::telemetry {

void ClockOffset::add(int64_t sent, int64_t there, int64_t received) {
  if (received < sent) return;
  const MutexLock lock(mutex_);
  const int64_t length = received - sent;
  round_trips_.push_back({.received = received, .length = length, .offset = there - (sent + length / 2)});
  while (round_trips_.size() > kRoundTripsMax || round_trips_.front().received + kMemoryUs < received) {
    round_trips_.pop_front();
  }
}

std::optional<ClockOffset::Estimate> ClockOffset::estimate() const {
  const MutexLock lock(mutex_);
  const auto shortest = std::ranges::min_element(round_trips_, {}, &RoundTrip::length);
  if (shortest == round_trips_.end()) return std::nullopt;
  return Estimate{.offset_us = shortest->offset, .error_us = (shortest->length + 1) / 2};
}

}  // namespace dtrain::telemetry
