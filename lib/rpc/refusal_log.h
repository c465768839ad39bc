// The log of refused calls. Strangers decide how many there are, so not each of them gets a line.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace dtrain::rpc {

// Any thread may call it.
class RefusalLog {
 public:
  using Clock = std::chrono::steady_clock;

  // `now`: tells the time; tests give their own.
  explicit RefusalLog(Log log, std::function<Clock::time_point()> now = Clock::now)
      : log_(std::move(log)), now_(std::move(now)) {}
  // A warning, at most one a second. The next line says how many were left out before it.
  void warn(const std::string& text);

 private:
  const Log log_;
  const std::function<Clock::time_point()> now_;
  Mutex mutex_;
  std::optional<Clock::time_point> logged_ DT_GUARDED_BY(mutex_);
  uint64_t left_out_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::rpc
