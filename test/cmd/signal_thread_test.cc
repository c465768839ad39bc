#include "signal_thread.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"

#include <chrono>
#include <csignal>
#include <functional>

namespace dtrain::cmd {

namespace {

// Waits until `holds` returns true; returns false after 5 s.
bool soon(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("TERM, USR1, INT and HUP request a stop, and USR2 requests the open waits", "[cmd]") {
  ::signal(SIGHUP, SIG_DFL);  // the tests themselves may run under nohup
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) {
    const SignalThread thread;
    CHECK_FALSE(thread.signals().stop);
    kill(getpid(), signal);
    CHECK(soon([&] { return thread.signals().stop.load(); }));
  }
  const SignalThread thread;
  kill(getpid(), SIGUSR2);
  CHECK(soon([&] { return thread.signals().dump_waits == 1; }));
  kill(getpid(), SIGUSR2);
  CHECK(soon([&] { return thread.signals().dump_waits == 2; }));
  CHECK_FALSE(thread.signals().stop);
}

// nohup ignores SIGHUP so that a process outlives its terminal.
TEST_CASE("a hangup signal that was ignored stays ignored", "[cmd]") {
  std::signal(SIGHUP, SIG_IGN);
  {
    const SignalThread thread;
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGUSR2);
    CHECK(soon([&] { return thread.signals().dump_waits == 1; }));
    CHECK_FALSE(thread.signals().stop);
  }
  std::signal(SIGHUP, SIG_DFL);
}

// Runs in a child process, because it is killed. SIGINT is ignored at first, as in a shell's background jobs.
TEST_CASE("a second SIGINT ends the process at once", "[cmd]") {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_IGN);
    const SignalThread thread;
    kill(getpid(), SIGINT);
    if (!soon([&] { return thread.signals().interrupts == 1; })) _exit(1);
    kill(getpid(), SIGINT);
    soon([] { return false; });
    _exit(2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

}  // namespace dtrain::cmd
