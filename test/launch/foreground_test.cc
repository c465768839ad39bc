// A launcher on a pseudo-terminal whose other end the test holds, under a shell with job control.
#include "launch/foreground.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "proc/signal_queue.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace std::chrono_literals;
using dtrain::test::contains;
using dtrain::test::TempDir;

namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<Result<int>(Screen&)>;
constexpr auto kForegroundPatience = 20s;  // far more than any case needs, because the host may be busy

template <class Holds>
bool soon(Holds&& holds) {
  const auto deadline = Clock::now() + kForegroundPatience;
  while (!holds()) {
    if (Clock::now() > deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Files by which processes signal their progress to each other.
class Marks {
 public:
  void set(const std::string& name) const { UniqueFd(::open(dir_.path(name).c_str(), O_CREAT | O_WRONLY, 0600)); }
  [[nodiscard]] bool wait(const std::string& name) const {
    return soon([&] { return std::filesystem::exists(dir_.path(name)); });
  }
  [[nodiscard]] bool is_set(const std::string& name) const { return std::filesystem::exists(dir_.path(name)); }

 private:
  TempDir dir_;
};

struct Setting {
  Marks& marks;
  Work work;
  bool ignore_hangup = false;  // as nohup does
  const char* kind = "xterm";  // TERM
};

// A shell and a launcher in one session, on a terminal with 40 columns. The shell sets the mark "stopped" when the
// launcher is suspended, and continues it after the mark "fg".
class Terminal {
 public:
  explicit Terminal(const Setting& setting) {
    const winsize size{.ws_row = 24, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
    int master = -1;
    shell_ = ::forkpty(&master, nullptr, nullptr, &size);
    REQUIRE(shell_ >= 0);
    if (shell_ == 0) be_shell(setting);
    master_ = UniqueFd(master);
    ::fcntl(master, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    if (shell_ > 0) ::kill(shell_, SIGKILL);
    if (shell_ > 0) ::waitpid(shell_, nullptr, 0);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const {
    REQUIRE(::write(master_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  void resize(uint16_t columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(::ioctl(master_.get(), TIOCSWINSZ, &size) == 0);
  }
  bool shows(const std::string& text) {
    return soon([&] {
      read();
      return contains(output_, text);
    });
  }
  const std::string& output() const { return output_; }

  // The launcher's exit code, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    const bool ended = soon([&] {
      read();
      return ::waitpid(shell_, &status, WNOHANG) == shell_;
    });
    read();
    INFO(output_);
    REQUIRE(ended);
    shell_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  [[noreturn]] static void be_shell(const Setting& setting) {
    ::signal(SIGTTOU, SIG_IGN);
    const pid_t launcher = ::fork();
    if (launcher == 0) be_launcher(setting);
    ::setpgid(launcher, launcher);
    ::tcsetpgrp(0, launcher);
    int status = 0;
    while (::waitpid(launcher, &status, WUNTRACED) == launcher && WIFSTOPPED(status)) {
      setting.marks.set("stopped");
      if (!setting.marks.wait("fg")) ::_exit(96);
      ::kill(-launcher, SIGCONT);
    }
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  [[noreturn]] static void be_launcher(const Setting& setting) {
    ::setpgid(0, 0);
    ::tcsetpgrp(0, ::getpid());
    ::signal(SIGTTOU, SIG_DFL);
    ::signal(SIGHUP, setting.ignore_hangup ? SIG_IGN : SIG_DFL);  // the tests themselves may run under nohup
    int code = 97;
    {
      Console console = Console::to_stderr(setting.kind);
      const Result<int> ended = run_in_background(console, setting.work);
      code = ended.value_or(98);
      if (!ended) console.line(ended.error().text());
    }
    ::_exit(code);
  }
  void read() {
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    while ((got = ::read(master_.get(), buffer.data(), buffer.size())) > 0) {
      output_.append(buffer.data(), static_cast<size_t>(got));
    }
  }

  pid_t shell_ = 0;
  UniqueFd master_;
  std::string output_;
};

// Waits for one of the signals that a launcher handles.
int await_signal(proc::SignalQueue& signals) {
  const auto deadline = Clock::now() + kForegroundPatience;
  while (Clock::now() < deadline) {
    pollfd watched{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, 100);
    for (const int signal : signals.take()) return signal;
  }
  return 0;
}

constexpr const char* kCtrlC = "\x03";
constexpr const char* kCtrlZ = "\x1a";
constexpr const char* kCtrlS = "\x13";
constexpr const char* kCtrlQ = "\x11";

}  // namespace

TEST_CASE("the background process's output is shown, and its exit code is returned", "[launch]") {
  Marks marks;
  SECTION("the background process exits") {
    Terminal terminal({marks, [](Screen& screen) -> Result<int> {
                         screen.line("hello");
                         screen.live("step 1 of a text that is wider than the terminal");
                         return 7;
                       }});
    CHECK(terminal.wait() == 7);
    CHECK(contains(terminal.output(), "hello\r\n\r\x1b[Kstep 1 of a text that is wider than the\r"));
    CHECK(terminal.output().ends_with("wider than the terminal\r\n"));
  }
  SECTION("the background process returns an error") {
    Terminal terminal({marks, [](Screen&) -> Result<int> { return fail(Code::kData, "a.rec: broken"); }});
    CHECK(terminal.wait() == 7);
    CHECK(contains(terminal.output(), "error [data] a.rec: broken"));
  }
  SECTION("a check fails in the background process") {
    Terminal terminal({marks, [](Screen&) -> Result<int> { DT_CHECK(false, "never"); }});
    CHECK(terminal.wait() == 1);
    CHECK(contains(terminal.output(), "never"));
  }
  SECTION("the background process is killed") {
    Terminal terminal({marks, [](Screen&) -> Result<int> { return ::raise(SIGKILL); }});
    CHECK(terminal.wait() == 98);
    CHECK(contains(terminal.output(), "killed by signal 9"));
  }
}

TEST_CASE("Ctrl-S suspends the output but not the job", "[launch]") {
  Marks marks;
  Terminal terminal({marks, [&](Screen& screen) -> Result<int> {
                       screen.line("begun");
                       if (!marks.wait("held up")) return 1;
                       for (int i = 0; i < 200'000; i++) screen.line(fmt::format("line {}", i));
                       marks.set("all said");
                       return 0;
                     }});
  REQUIRE(terminal.shows("begun"));
  terminal.type(kCtrlS);
  marks.set("held up");
  CHECK(marks.wait("all said"));
  CHECK_FALSE(contains(terminal.output(), "line 199999"));
  terminal.type(kCtrlQ);
  CHECK(terminal.wait() == 0);
  CHECK(contains(terminal.output(), "lines are not shown"));
  CHECK(terminal.output().ends_with("line 199999\r\n"));
}

TEST_CASE("Ctrl-Z returns to the shell, and the job continues", "[launch]") {
  Marks marks;
  Terminal terminal({marks, [&](Screen& screen) -> Result<int> {
                       screen.line("begun");
                       if (!marks.wait("stopped")) return 1;
                       screen.line("while stopped");
                       marks.set("went on");
                       return marks.wait("fg") ? 75 : 2;
                     }});
  REQUIRE(terminal.shows("begun"));
  terminal.type(kCtrlZ);
  REQUIRE(marks.wait("stopped"));
  CHECK(marks.wait("went on"));
  CHECK(terminal.shows("the job continues in the background; fg shows it again"));
  CHECK_FALSE(contains(terminal.output(), "while stopped"));
  marks.set("fg");
  CHECK(terminal.wait() == 75);
  CHECK(contains(terminal.output(), "while stopped"));
}

// The launcher in a process of its own with this stderr; returns its exit code, or 128 + the signal that ended it.
int run_with_stderr(int error, const Work& work) {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(error, STDERR_FILENO);
    Console console = Console::to_stderr("");
    ::_exit(run_in_background(console, work).value_or(98));
  }
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a pager that is quit and a full disk cost the display, not the job", "[launch]") {
  Marks marks;
  const Work work = [&](Screen& screen) -> Result<int> {
    for (int i = 0; i < 20'000; i++) screen.line("more than a pipe takes");
    marks.set("went on");
    return 7;
  };
  SECTION("the reader of stderr is gone") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    ::close(ends[0]);
    const UniqueFd write(ends[1]);
    CHECK(run_with_stderr(write.get(), work) == 7);
  }
  SECTION("stderr is a file on a full disk") {
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    CHECK(run_with_stderr(full.get(), work) == 7);
  }
  CHECK(marks.is_set("went on"));
}

TEST_CASE("Ctrl-C reaches the background process once even while the output is suspended", "[launch]") {
  Marks marks;
  Terminal terminal({marks, [&](Screen& screen) -> Result<int> {
                       proc::SignalQueue signals;
                       for (int i = 0; i < 20'000; i++) screen.line("more than a terminal takes");
                       screen.line("begun");
                       marks.set("begun");
                       return await_signal(signals);
                     }});
  REQUIRE(marks.wait("begun"));  // nothing has been read from the terminal yet
  terminal.type(kCtrlC);
  CHECK(terminal.wait() == SIGINT);
}

TEST_CASE("a hangup stops the job unless it runs under nohup", "[launch]") {
  Marks marks;
  const Work work = [&](Screen& screen) -> Result<int> {
    proc::SignalQueue signals;
    screen.line(fmt::format("launcher {}", ::getppid()));
    marks.set("ready");
    return await_signal(signals);
  };
  const bool nohup = GENERATE(false, true);
  INFO("nohup " << nohup);
  Terminal terminal({marks, work, nohup});
  REQUIRE(marks.wait("ready"));
  REQUIRE(terminal.shows("\r\n"));
  const pid_t launcher = std::atoi(terminal.output().c_str() + std::string("launcher ").size());
  ::kill(launcher, SIGHUP);
  if (nohup) ::kill(launcher, SIGTERM);
  CHECK(terminal.wait() == (nohup ? SIGTERM : SIGHUP));
}

TEST_CASE("the background process receives SIGHUP if the foreground process is killed", "[launch]") {
  Marks marks;
  Terminal terminal({marks, [&](Screen&) -> Result<int> {
                       proc::SignalQueue signals;
                       ::kill(::getppid(), SIGKILL);
                       if (await_signal(signals) == SIGHUP) marks.set("hung up");
                       return 0;
                     }});
  CHECK(terminal.wait() == 128 + SIGKILL);
  CHECK(marks.wait("hung up"));
}

TEST_CASE("a dumb terminal gets plain text", "[launch]") {
  Marks marks;
  Terminal terminal({.marks = marks,
                     .work = [](Screen& screen) -> Result<int> {
                       screen.live("step 1");
                       screen.line("hello");
                       screen.live("step 2");
                       return 0;
                     },
                     .kind = "dumb"});
  CHECK(terminal.wait() == 0);
  CHECK(terminal.output() == "step 1\r\nhello\r\nstep 2\r\n");
}

TEST_CASE("the live line follows the width of the window", "[launch]") {
  Marks marks;
  Terminal terminal({marks, [&](Screen& screen) -> Result<int> {
                       screen.live("0123456789abcdefghijklmnopqrstuvwxyz");
                       return marks.wait("seen") ? 0 : 1;
                     }});
  REQUIRE(terminal.shows("\r\x1b[K0123456789abcdefghijklmnopqrstuvwxyz"));
  terminal.resize(20);
  CHECK(terminal.shows("\r\x1b[1A\x1b[J0123456789abcdefghi"));
  terminal.resize(15);
  CHECK(terminal.shows("\r\x1b[1A\x1b[J0123456789abcd"));
  marks.set("seen");
  CHECK(terminal.wait() == 0);
}
