// Logs of what strangers cause, such as refused calls. They decide how often it happens, so not each time gets a line.
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

// Lets one event a second through. Any thread may call it.
class OncePerSecond {
 public:
  using Clock = std::chrono::steady_clock;

  // `now`: tells the time; tests give their own.
  explicit OncePerSecond(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}
  // Nullopt: leave this one out. Otherwise how many were left out since the last one that was not.
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
  // A warning, at most one a second. The next line says how many were left out before it.
  void warn(const std::string& text);

 private:
  const Log log_;
  OncePerSecond limit_;
};

}  // namespace dtrain::net
