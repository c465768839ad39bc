#include "proc/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"

namespace dtrain::proc {

SignalQueue::SignalQueue(Taken taken) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  if (taken == Taken::kAll) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&mask, signal);
  }
  ::sigprocmask(SIG_BLOCK, &mask, &mask_before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  fd_ = UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  DT_CHECK(fd_.open(), "signalfd");
}

SignalQueue::~SignalQueue() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<int> SignalQueue::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

}  // namespace dtrain::proc
