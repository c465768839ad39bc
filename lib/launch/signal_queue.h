// Signals as something that can be polled. Between its making and its end the signals that a launcher reacts to are
// taken out of a descriptor instead of interrupting anybody, and SIGPIPE is ignored. For a process with one thread.
#pragma once

#include <csignal>
#include <vector>

#include "launch/unique_fd.h"

namespace dtrain::launch {

class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  std::vector<int> take();  // those that have come, in order; does not block

 private:
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

}  // namespace dtrain::launch
