// Logs events that unauthenticated peers cause, such as refused calls. Because such peers determine how often the
// events happen, not every event is logged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace dtrain::net {

// Admits one event per second. Any thread may call it.
class OncePerSecond {
 public:
  using Clock = std::chrono::steady_clock;

  // `now`: the clock; tests pass a different one.
  explicit OncePerSecond(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}
  // Nullopt: drop this event. Otherwise, log it; the result is the number of events dropped since the last admitted
  // one.
  std::optional<uint64_t> admit();

 private:
  const std::function<Clock::time_point()> now_;
  Mutex mutex_;
  std::optional<Clock::time_point> admitted_ DT_GUARDED_BY(mutex_);
  uint64_t left_out_ DT_GUARDED_BY(mutex_) = 0;
};

// Any thread may call it.
class RefusalLog {
 public:
  explicit RefusalLog(Log log, std::function<OncePerSecond::Clock::time_point()> now = OncePerSecond::Clock::now)
      : log_(std::move(log)), limit_(std::move(now)) {}
  // Logs a warning, at most one per second. The next line includes the number of warnings that were dropped.
  void warn(const std::string& text);

 private:
  const Log log_;
  OncePerSecond limit_;
};

}  // namespace dtrain::net
