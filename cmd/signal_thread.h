// Records signals in a Signals. TERM, USR1, INT and HUP (unless it is ignored, as under nohup) ask the process to stop;
// USR2 asks for the list of open waits. A second INT ends the process immediately, by the default action.
//
// A thread reads the signals from a descriptor, so no handler and no global is needed. The main thread must construct
// it before any other thread exists, so that all threads inherit the blocked signals.
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

// TERM or USR1 asks a process that trains to stop, even in the first moments, before there is a SignalThread. The first
// function blocks these signals, and the second, for a process that does not train itself, unblocks them. Programs
// started in between would inherit the blocked signals.
void block_early_signals();
void unblock_early_signals();

}  // namespace dtrain::cmd
