// Records signals in a Signals. TERM, USR1, INT and HUP (unless HUP is ignored, as under nohup) request that the
// process stop. USR2 requests the list of open waits. A second INT ends the process immediately, by the default action
// of the signal.
//
// A thread reads the signals from a descriptor, so neither a signal handler nor a global variable is needed. The main
// thread must construct the object before there are other threads, so that all threads inherit the blocked signals.
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

// A training process should stop after TERM or USR1 even in its first moments, before it has a SignalThread.
// block_early_signals() therefore blocks these signals. A process that does not train itself must call
// unblock_early_signals(), because the programs that it starts would otherwise inherit the blocked signals.
void block_early_signals();
void unblock_early_signals();

}  // namespace dtrain::cmd
