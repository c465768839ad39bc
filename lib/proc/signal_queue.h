// Makes signals pollable. While a SignalQueue exists, those signals that a launcher handles do not interrupt the
// process but are read from a descriptor, and SIGPIPE is ignored. For processes with a single thread.
#pragma once

#include <csignal>
#include <vector>

#include "base/unique_fd.h"

namespace dtrain::proc {

class SignalQueue {
 public:
  // Which signals are queued. kOnlyChildren: only SIGCHLD; the others are left to the SignalQueue that exists already,
  // or interrupt the process.
  enum class Taken { kAll, kOnlyChildren };
  explicit SignalQueue(Taken taken = Taken::kAll);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  std::vector<int> take();  // returns the signals that have arrived, in order; does not block

 private:
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

}  // namespace dtrain::proc
