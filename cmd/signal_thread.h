// Turns signals into a Signals: TERM, USR1, INT and HUP (unless it is ignored: nohup) ask to stop, USR2 for the open
// waits; a second INT ends the process at once, as if nobody listened.
//
// A thread takes them out of a descriptor, so no handler and no global is needed. Made by the main thread before any
// other thread, which then inherit that these signals are blocked.
#pragma once

#include <thread>

#include "base/signals.h"

namespace dtrain::cmd {

class SignalThread {
 public:
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  [[nodiscard]] const Signals& signals() const { return signals_; }

 private:
  void serve();
  void take(int signal);

  Signals signals_;
  int signal_fd_ = -1, end_fd_ = -1;
  std::thread thread_;
};

}  // namespace dtrain::cmd
