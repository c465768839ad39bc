#include "signal_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "base/thread.h"

namespace dtrain::cmd {

namespace {

// True under nohup, which ignores HUP so that the process survives the end of its terminal.
bool hangup_is_ignored() {
  struct sigaction now {};
  return sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGINT}) sigaddset(&set, signal);
  if (!hangup_is_ignored()) sigaddset(&set, SIGHUP);
  return set;
}

void set_early_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void block_early_signals() {
  set_early_signals(SIG_BLOCK);
}

void unblock_early_signals() {
  set_early_signals(SIG_UNBLOCK);
}

SignalThread::SignalThread() {
  const sigset_t set = taken_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGINT, SIG_DFL);   // a shell that starts a program in the background makes it ignore INT
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed connection fails with an error instead
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  DT_CHECK(signal_fd_ >= 0 && end_fd_ >= 0, "signalfd {}, eventfd {}", signal_fd_, end_fd_);
  thread_ = std::thread([this] { serve(); });
}

SignalThread::~SignalThread() {
  eventfd_write(end_fd_, 1);
  thread_.join();
  close(signal_fd_);
  close(end_fd_);
}

void SignalThread::serve() {
  name_thread("signals");
  while (true) {
    pollfd waiting[2] = {{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0) continue;  // poll() has failed with EINTR, for example under a debugger
    if (waiting[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) == sizeof info) take(static_cast<int>(info.ssi_signo));
  }
}

void SignalThread::take(int signal) {
  if (signal == SIGUSR2) {
    signals_.dump_waits++;
    return;
  }
  if (signal == SIGTERM && !signals_.stop) signals_.terminated = true;
  signals_.stop = true;
  if (signal != SIGINT || ++signals_.interrupts < 2) return;
  // INT is unblocked in this thread and raised, so that the process ends by the signal and a shell sees this.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  raise(SIGINT);
}

}  // namespace dtrain::cmd
