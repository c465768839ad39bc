// Acts on the signals that a signal handler has recorded.
#pragma once

#include <functional>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "base/waits.h"

namespace dtrain::role {

// A thread that polls the signals ten times a second, because a signal handler may do little more than set a flag.
class SignalWatcher {
 public:
  // Calls on_stop once when a stop is requested, on the watcher's thread. On SIGUSR2, logs what this process is waiting
  // for (`waits`), and calls on_trace, which may be null.
  SignalWatcher(const Signals& signals, const Waits& waits, Log log, std::function<void()> on_stop,
                std::function<void()> on_trace = nullptr);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void watch();
  void dump_waits() const;

  const Signals& signals_;
  const Waits& waits_;
  Log log_;
  std::function<void()> on_stop_, on_trace_;
  Mutex mutex_;
  ConditionVariable ended_;
  bool end_ DT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dtrain::role
