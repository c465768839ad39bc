// The launcher with shell scripts in place of scheduler, servers and workers. It runs in a process of its own, so that
// it can be signaled and killed like the real one. Its output is read through a pipe.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "base/file.h"
#include "base/host_limits.h"
#include "base/unique_fd.h"
#include "launch/message.h"
#include "launch/supervisor.h"
#include "proc/lines.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace dtrain::launch::test {

using namespace std::chrono_literals;
using dtrain::test::contains;
using dtrain::test::TempDir;

using Clock = std::chrono::steady_clock;
inline constexpr auto kPatience = 20s;  // far more than any case needs, because the host may be busy

// The sh script of each role. Each script appends its process id to the file `pids`; `mark FILE` and `await FILE` let
// scripts wait for each other.
struct Scripts {
  std::string scheduler = "echo dtrain scheduler 127.0.0.1:1; " + kDone;
  std::vector<std::string> workers = {};
  std::vector<std::string> servers = {};

  static inline const std::string kDone = "await done";
  static inline const std::string kForever = "sleep 1000 & wait";
  static inline const std::string kStubborn = "trap '' TERM; echo stubborn; while :; do sleep 1000; done";
  static inline const std::string kObedient = "trap 'echo stopped; exit 75' TERM; echo ready; sleep 1000 & wait";
};

inline Command shell(const TempDir& dir, const std::string& role, int rank, const std::string& script) {
  const std::string prelude = "cd " + dir.path() + "; echo $$ >> pids; mark() { : > $1; }; " +
                              "await() { while [ ! -e $1 ]; do sleep 0.02; done; }; ";
  return {
      .role = role, .rank = rank, .host = "here", .arguments = {"/bin/sh", "-c", prelude + script}, .environment = {}};
}

inline Job job_of(const TempDir& dir, const Scripts& scripts, const Limits& limits) {
  Job job;
  job.name = "job";
  job.scheduler = shell(dir, "scheduler", 0, scripts.scheduler);
  job.others = [&dir, scripts](const std::string&) {
    std::vector<Command> commands;
    for (const auto& script : scripts.servers) {
      commands.push_back(shell(dir, "server", static_cast<int>(commands.size()), script));
    }
    for (size_t i = 0; i < scripts.workers.size(); i++) {
      commands.push_back(shell(dir, "worker", static_cast<int>(i), scripts.workers[i]));
    }
    return commands;
  };
  job.limits = limits;
  job.record_root = dir.path("record");
  job.log_hint = [] { return std::string("logs are in runs/x"); };
  job.stopped_hint = "stopped; go on";
  return job;
}

inline void write_out(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

class Launcher {
 public:
  // `directory`: the launcher's working directory; empty: that of the test.
  explicit Launcher(const Job& job, const std::string& directory = "")
      : Launcher(
            [&job](Screen& screen) {
              const Result<JobEnd> end = launch::supervise(job, screen);
              for (size_t i = 0; end && i < end->findings.size(); i++) screen.line("FOUND " + end->findings[i]);
              screen.line(end ? fmt::format("END {} of {}", end->error.size(), end->peak_rss_bytes.size())
                              : end.error().text());
              return end ? end->exit_code : 98;
            },
            directory) {}
  // `work` returns the exit status.
  explicit Launcher(const std::function<int(Screen&)>& work, const std::string& directory = "") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(97);
      ::fcntl(ends[1], F_SETFD, FD_CLOEXEC);
      int code = 99;
      {
        Screen screen{UniqueFd(ends[1])};
        code = work(screen);
      }
      ::_exit(code);
    }
    ::close(ends[1]);
    output_fd_ = UniqueFd(ends[0]);
  }
  ~Launcher() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int signal) const { REQUIRE(::kill(pid_, signal) == 0); }

  // Reads until `text` has been printed `times` times.
  void await(const std::string& text, int times = 1) {
    const auto deadline = Clock::now() + kPatience;
    while (count(text) < times) {
      INFO("waiting for '" << text << "' in:\n" << output_);
      REQUIRE(read_more(deadline));
    }
  }

  // Reads all output and returns the exit status.
  int wait() {
    const auto deadline = Clock::now() + kPatience;
    while (read_more(deadline)) {
    }
    INFO(output_);
    REQUIRE(Clock::now() < deadline);
    int status = 0;
    REQUIRE(::waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] std::string record(const TempDir& dir) const {
    return dir.path(fmt::format("record/job/processes-{}-{}", host_name(), pid_));
  }

 private:
  [[nodiscard]] int count(const std::string& text) const {
    int found = 0;
    for (size_t at = output_.find(text); at != std::string::npos; at = output_.find(text, at + 1)) found++;
    return found;
  }
  bool read_more(Clock::time_point deadline) {
    pollfd watched{.fd = output_fd_.get(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || ::poll(&watched, 1, static_cast<int>(left)) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(output_fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) return false;
    messages_.add({buffer.data(), static_cast<size_t>(got)},
                  [this](const std::string& message) { REQUIRE(show(message, console_)); });
    return true;
  }

  pid_t pid_ = 0;
  UniqueFd output_fd_;
  std::string output_;
  proc::LineSplitter messages_{kMessageMax};
  Console console_{[this](std::string_view text) { output_ += text; }, [] { return WindowSize(); }};
};

// A zombie does not count: it has ended and is only not reaped yet.
inline bool runs(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  return stat && stat->find(") Z") == std::string::npos;
}

// The number of processes that have recorded their ids.
inline int count_begun(const TempDir& dir) {
  std::ifstream pids(dir.path("pids"));
  int count = 0;
  for (pid_t pid = 0; pids >> pid;) count++;
  return count;
}

// True if all recorded processes end within the time; also true if there are none.
inline bool none_left(const TempDir& dir, std::chrono::milliseconds within = kPatience) {
  const auto deadline = Clock::now() + within;
  std::ifstream pids(dir.path("pids"));
  for (pid_t pid = 0; pids >> pid;) {
    while (runs(pid)) {
      if (Clock::now() > deadline) return false;
      ::poll(nullptr, 0, 10);
    }
  }
  return true;
}
inline bool all_gone(const TempDir& dir) {
  return count_begun(dir) > 0 && none_left(dir);
}

// Short limits, so that cases that reach one are quick. Cases that must not reach a limit use the long ones.
inline const Limits kQuick{
    .start = 300ms, .settle = 500ms, .settle_scheduler = 500ms, .wind_down = 500ms, .stop = 300ms, .kill_after = 300ms};
inline const Limits kPatient{.start = kPatience,
                             .settle = kPatience,
                             .settle_scheduler = kPatience,
                             .wind_down = kPatience,
                             .stop = kPatience,
                             .kill_after = kPatience};

}  // namespace dtrain::launch::test
