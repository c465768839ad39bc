#include "launch/foreground.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/thread.h"
#include "job/process/exit_code.h"
#include "launch/message.h"
#include "proc/lines.h"
#include "proc/process_group.h"
#include "proc/run.h"

namespace dtrain::launch {
namespace {

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  return set;
}

// The signals that are passed on to the child. Both processes block them before the fork, so that none is lost.
sigset_t passed_on() {
  return set_of({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
}

// Passes signals on in a separate thread, because the main thread may be blocked in a write to the terminal.
class SignalThread {
 public:
  explicit SignalThread(pid_t child) : child_(child), taken_(passed_on()) {
    for (const int more : {SIGTSTP, SIGWINCH}) {
      if (!is_ignored(more)) sigaddset(&taken_, more);
    }
    pthread_sigmask(SIG_BLOCK, &taken_, &before_);
    signals_ = UniqueFd(::signalfd(-1, &taken_, SFD_CLOEXEC));
    end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    resized_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    DT_CHECK(signals_.open() && end_.open() && resized_.open(), "signalfd and eventfd");
    thread_ = std::thread([this] { serve(); });
  }
  ~SignalThread() {
    ::eventfd_write(end_.get(), 1);
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // Readable when the window size has changed.
  [[nodiscard]] int resized_fd() const { return resized_.get(); }

 private:
  void serve() {
    name_thread("signals");
    while (true) {
      std::array<pollfd, 2> watched = {{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
      if (::poll(watched.data(), watched.size(), -1) < 0) continue;
      if (watched[1].revents != 0) return;
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) == sizeof info) take(static_cast<int>(info.ssi_signo));
    }
  }
  void take(int signal) {
    switch (signal) {
      case SIGTSTP: return suspend();
      case SIGWINCH: ::eventfd_write(resized_.get(), 1); return;
      default: ::kill(child_, signal);
    }
  }
  // Suspends this process by the signal's default action. The signal is unblocked only in this thread.
  static void suspend() {
    constexpr std::string_view kHint = "\ndtrain: the job continues in the background; fg shows it again\n";
    if (::isatty(STDERR_FILENO) != 0) [[maybe_unused]]
      const ssize_t put = ::write(STDERR_FILENO, kHint.data(), kHint.size());
    sigset_t stop = set_of({SIGTSTP});
    pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    ::raise(SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  }

  pid_t child_;
  sigset_t taken_, before_{};
  UniqueFd signals_, end_, resized_;
  std::thread thread_;
};

// Shows messages until the child closes its end.
void show_all(UniqueFd& from, const SignalThread& signals, Console& console) {
  proc::LineSplitter splitter(kMessageMax);
  const auto sink = [&](const std::string& message) {
    if (Result<> shown = show(message, console); !shown) console.line(shown.error().text());
  };
  while (from.open()) {
    std::array<pollfd, 2> watched = {{{from.get(), POLLIN, 0}, {signals.resized_fd(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    eventfd_t count = 0;
    if (watched[1].revents != 0 && ::eventfd_read(signals.resized_fd(), &count) == 0) console.resized();
    if (watched[0].revents != 0) proc::read_lines(from, splitter, 1, sink);
  }
}

[[noreturn]] void be_child(pid_t parent, proc::Pipe pipe, const std::function<Result<int>(Screen&)>& work) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (::getppid() != parent) ::_exit(job::kExitInternal);  // the parent died before prctl took effect
  pipe.read.close();
  int code = job::kExitInternal;
  {
    Screen screen(std::move(pipe.write));
    const Result<> done = catching([&]() -> Result<> {
      DT_TRY(code, work(screen));
      return {};
    });
    if (!done) screen.line(done.error().text());
    if (!done) code = job::exit_code(done.error().code);
  }
  ::_exit(code);
}

}  // namespace

Result<int> run_in_background(Console& console, const std::function<Result<int>(Screen&)>& work) {
  DT_TRY(proc::Pipe pipe, proc::make_pipe());
  const sigset_t blocked = passed_on();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  ::signal(SIGPIPE, SIG_IGN);  // quitting a pager must not end the job
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail(Code::kStartup, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) be_child(self, std::move(pipe), work);
  pipe.write.close();
  int status = 0;
  {
    const SignalThread signals(child);
    show_all(pipe.read, signals, console);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return fail(Code::kInternal, "the launcher's process {} {}; its job is being stopped", child,
              proc::how_it_ended(status));
}

}  // namespace dtrain::launch
