// Logs long waits: the waits of this process, or of other processes for this one.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/waits.h"

namespace dtrain::role {

// Returns a line for each wait that is at least this many seconds old. Called by the thread of a WaitLog.
using LongWaits = std::function<std::vector<std::string>(double seconds)>;

// The waits of this process, without own work. `waits` must outlive the function.
LongWaits own_waits(const Waits& waits);

// A thread that logs each wait once it has lasted for `first`, and again every 60 s.
class WaitLog {
 public:
  WaitLog(LongWaits long_waits, std::chrono::milliseconds first, Log log);
  ~WaitLog();
  WaitLog(const WaitLog&) = delete;
  WaitLog& operator=(const WaitLog&) = delete;

 private:
  void watch();

  const LongWaits long_waits_;
  const std::chrono::milliseconds first_;
  Log log_;
  Mutex mutex_;
  ConditionVariable ended_;
  bool end_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dtrain::role
