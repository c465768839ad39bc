// Makes signals pollable. While a SignalQueue exists, the signals that a launcher handles are read from a descriptor
// instead of interrupting the process, and SIGPIPE is ignored. For a process with a single thread.
#pragma once

#include <csignal>
#include <vector>

#include "base/unique_fd.h"

namespace dtrain::proc {

class SignalQueue {
 public:
  // kOnlyChildren: other signals are left to the enclosing SignalQueue, or to the process.
  enum class Taken { kAll, kOnlyChildren };
  explicit SignalQueue(Taken taken = Taken::kAll);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  std::vector<int> take();  // the signals that have arrived, in order; does not block

 private:
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

}  // namespace dtrain::proc
