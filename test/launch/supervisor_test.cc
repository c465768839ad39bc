// The launcher with shell scripts in the places of scheduler, servers and workers. It runs in a process of its own, so
// that it can be signalled and killed like the real one; what it prints is read through a pipe.
#include "launch/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "launch/job_record.h"
#include "launch/unique_fd.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = 20s;  // far above what any case needs: a machine may be busy

// What each role runs, in sh. `$pids` is a file for process ids; `mark FILE` and `await FILE` let scripts wait for each
// other.
struct Scripts {
  std::string scheduler = "echo dtrain scheduler 127.0.0.1:1; " + kDone;
  std::vector<std::string> workers = {};
  std::vector<std::string> servers = {};

  static inline const std::string kDone = "await done";
  static inline const std::string kForever = "sleep 1000 & wait";
  static inline const std::string kStubborn = "trap '' TERM; echo stubborn; while :; do sleep 1000; done";
  static inline const std::string kObedient = "trap 'echo stopped; exit 75' TERM; echo ready; sleep 1000 & wait";
};

Command shell(const test::TempDir& dir, const std::string& role, int rank, const std::string& script) {
  const std::string prelude = "cd " + dir.path() + "; echo $$ >> pids; mark() { : > $1; }; " +
                              "await() { while [ ! -e $1 ]; do sleep 0.02; done; }; ";
  return {
      .role = role, .rank = rank, .host = "here", .arguments = {"/bin/sh", "-c", prelude + script}, .environment = {}};
}

LocalJob job_of(const test::TempDir& dir, const Scripts& scripts, const Limits& limits) {
  LocalJob job;
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
  job.log_hint = "logs are in runs/x";
  job.stopped_hint = "stopped; go on";
  return job;
}

void write_out(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

class Launcher {
 public:
  explicit Launcher(const LocalJob& job) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::fcntl(ends[1], F_SETFD, FD_CLOEXEC);
      int code = 99;
      {
        Console console([&](std::string_view bytes) { write_out(ends[1], bytes); }, 0);
        const Result<JobEnd> end = launch::supervise(job, console);
        console.line(end ? fmt::format("END {} of {}", end->error.size(), end->peak_rss_bytes.size())
                         : end.error().text());
        code = end ? end->exit_code : 98;
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

  void signal(int signal) const { REQUIRE(::kill(pid_, signal) == 0); }

  // Reads until `text` has been printed `times` times.
  void await(const std::string& text, int times = 1) {
    const auto deadline = Clock::now() + kPatience;
    while (count(text) < times) {
      INFO("waiting for '" << text << "' in:\n" << output_);
      REQUIRE(read_more(deadline));
    }
  }

  // The exit status; reads all output on the way.
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
    if (got > 0) output_.append(buffer.data(), static_cast<size_t>(got));
    return got > 0;
  }

  pid_t pid_ = 0;
  UniqueFd output_fd_;
  std::string output_;
};

// A zombie has ended; whoever inherited it has not looked yet.
bool runs(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  return stat && stat->find(") Z") == std::string::npos;
}

// Every process that wrote down its id, and what it started, has ended within the time.
bool all_gone(const test::TempDir& dir, std::chrono::milliseconds within = kPatience) {
  const auto deadline = Clock::now() + within;
  std::ifstream pids(dir.path("pids"));
  pid_t pid = 0;
  int seen = 0;
  while (pids >> pid) {
    seen++;
    while (runs(pid)) {
      if (Clock::now() > deadline) return false;
      ::poll(nullptr, 0, 10);
    }
  }
  return seen > 0;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Short, so that cases that reach a limit are quick; the cases that must not reach one set it high.
const Limits kQuick{
    .start = 300ms, .settle = 500ms, .settle_scheduler = 500ms, .wind_down = 500ms, .kill_after = 300ms};
const Limits kPatient{.start = kPatience,
                      .settle = kPatience,
                      .settle_scheduler = kPatience,
                      .wind_down = kPatience,
                      .kill_after = kPatience};

}  // namespace

TEST_CASE("a job whose processes all end well ends with 0, their output under their names", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(job_of(dir,
                           {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=3 steps=9; await done",
                            .workers = {"echo hello", "echo on stderr >&2; mark done"},
                            .servers = {"await done"}},
                           kPatient));
  CHECK(launcher.wait() == 0);
  CHECK(contains(launcher.output(), "[worker 0 here] hello\n"));
  CHECK(contains(launcher.output(), "[worker 1 here] on stderr\n"));
  CHECK(contains(launcher.output(), "step 3/9"));
  CHECK_FALSE(contains(launcher.output(), "127.0.0.1"));
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("the first error of the process that failed first is the last thing a user reads", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; await failed; exit 5",
       .workers =
           {"await live; echo 'error [data] a.rec: broken'; echo '  while training'; echo bye; mark failed; exit 7",
            "await failed; echo 'error [peer lost] worker 0'; exit 5"}},
      kPatient));
  CHECK(launcher.wait() == 7);
  const std::string& output = launcher.output();
  INFO(output);
  CHECK(
      output.ends_with("dtrain: logs are in runs/x\n"
                       "dtrain: worker 0 on here ended with code 7 (data); its first error:\n"
                       "error [data] a.rec: broken\n  while training\n"
                       "END 43 of 3\n"));
  CHECK(contains(output, "[worker 1 here] error [peer lost] worker 0"));  // it had the time to say so
}

TEST_CASE("a failed start stops the others at once", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(
      job_of(dir, {.workers = {"await up; exit 2", "mark up; " + Scripts::kForever}, .servers = {Scripts::kForever}},
             kPatient));
  CHECK(launcher.wait() == 2);
  CHECK(all_gone(dir));
}

TEST_CASE("a process that cannot be executed is a failed start that names the program", "[launch]") {
  const test::TempDir dir;
  LocalJob job = job_of(dir, {}, kPatient);
  SECTION("a worker") {
    job.others = [&](const std::string&) {
      return std::vector<Command>{
          shell(dir, "server", 0, Scripts::kForever),
          {.role = "worker", .host = "here", .arguments = {"/no/such/program"}, .environment = {}}};
    };
    Launcher launcher(job);
    CHECK(launcher.wait() == 3);
    INFO(launcher.output());
    CHECK(contains(launcher.output(), "error [start-up] cannot execute '/no/such/program': No such file"));
    CHECK(contains(launcher.output(), "while starting worker 0 of job 'job'"));
    CHECK(all_gone(dir));
  }
  SECTION("the scheduler") {
    job.scheduler.arguments = {"/no/such/program"};
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "cannot execute '/no/such/program'"));
  }
}

TEST_CASE("a scheduler that does not say where it listens is given up", "[launch]") {
  const test::TempDir dir;
  SECTION("because it stands still") {
    Launcher launcher(job_of(dir, {.scheduler = Scripts::kForever, .workers = {"mark started"}}, kQuick));
    CHECK(launcher.wait() == 3);
    CHECK(contains(launcher.output(), "did not say where it listens within 0.3 s (--start-timeout)"));
  }
  SECTION("because it ended") {
    Launcher launcher(job_of(dir, {.scheduler = "echo something else", .workers = {"mark started"}}, kPatient));
    CHECK(launcher.wait() == 3);
    CHECK(contains(launcher.output(), "[scheduler here] something else"));
    CHECK(contains(launcher.output(), "ended before it said where it listens"));
  }
  SECTION("because it failed") {
    Launcher launcher(job_of(dir, {.scheduler = "echo 'error [denied] no token' >&2; exit 6"}, kPatient));
    CHECK(launcher.wait() == 6);
    CHECK(contains(launcher.output(), "its first error:\nerror [denied] no token\nEND 23 of 1\n"));
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("started")));
  CHECK(all_gone(dir));
}

// Three kinds of scripts: those that end as asked, those that must be killed, and a grandchild that nobody else knows.
TEST_CASE("an interrupted job leaves no process behind", "[launch]") {
  const test::TempDir dir;
  SECTION("everybody obeys") {
    Launcher launcher(
        job_of(dir, {.workers = {Scripts::kObedient, Scripts::kObedient}, .servers = {Scripts::kObedient}}, kPatient));
    launcher.await("] ready", 3);
    const int signal = GENERATE(SIGINT, SIGTERM, SIGUSR1, SIGHUP);
    INFO("signal " << signal);
    launcher.signal(signal);
    CHECK(launcher.wait() == 75);
    CHECK(contains(launcher.output(), "[worker 1 here] stopped"));
    CHECK(contains(launcher.output(), "dtrain: stopped; go on\nEND 0 of 4\n"));
  }
  SECTION("one does not listen and is killed after a while") {
    Launcher launcher(job_of(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}}, kQuick));
    launcher.await("] ready");
    launcher.await("] stubborn");
    launcher.signal(SIGTERM);
    CHECK(launcher.wait() == 5);
    CHECK(contains(launcher.output(), "did not stop, killed now: worker 1"));
  }
  SECTION("a second interrupt kills at once") {
    Launcher launcher(job_of(dir, {.workers = {Scripts::kStubborn, Scripts::kStubborn}}, kPatient));
    launcher.await("] stubborn", 2);
    launcher.signal(SIGINT);
    launcher.await("stopping the job");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 5);
    CHECK(contains(launcher.output(), "a second interrupt: killing the job"));
  }
  SECTION("a worker's own child outlives it") {
    Launcher launcher(
        job_of(dir, {.workers = {"sh -c 'echo $$ >> pids; mark; exec sleep 1000' & mark done"}}, kPatient));
    CHECK(launcher.wait() == 0);
  }
  CHECK(all_gone(dir));
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("a launcher that is killed takes its job with it", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(
      job_of(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}, .servers = {Scripts::kStubborn}}, kQuick));
  launcher.await("] ready");
  launcher.await("] stubborn", 2);
  const Result<std::string> record = read_file(dir.path("record/job/processes"));
  REQUIRE(record);
  CHECK(std::count(record->begin(), record->end(), '\n') == 4);
  CHECK(contains(*record, "server 0 "));
  launcher.signal(SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(all_gone(dir));
  const auto deadline = Clock::now() + kPatience;
  while (std::filesystem::exists(dir.path("record/job")) && Clock::now() < deadline) ::poll(nullptr, 0, 10);
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("after a failure those who do not end by themselves are stopped", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(
      job_of(dir,
             {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; " + Scripts::kObedient,
              .workers = {"await live; kill -9 $$", Scripts::kStubborn}},
             kQuick));
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "dtrain: worker 0 was killed by signal 9 (Killed)\n"));
  CHECK(contains(launcher.output(), "still running, stopped now: scheduler, worker 1"));
  CHECK(contains(launcher.output(), "killed now: worker 1"));
  CHECK(all_gone(dir));
}

TEST_CASE("servers that do not end after the last worker are stopped and count as failed", "[launch]") {
  const test::TempDir dir;
  Launcher launcher(job_of(dir, {.workers = {"mark done"}, .servers = {Scripts::kStubborn}}, kQuick));
  CHECK(launcher.wait() == 5);
  CHECK(contains(launcher.output(), "still running, stopped now: server 0"));
  CHECK(all_gone(dir));
}

TEST_CASE("SIGUSR2 reaches every process and the job goes on", "[launch]") {
  const test::TempDir dir;
  const std::string script =
      "trap 'echo waits: none' USR2; echo ready; while [ ! -e done ]; do sleep 0.02; done; exit 0";
  Launcher launcher(job_of(
      dir, {.scheduler = "echo dtrain scheduler 127.0.0.1:1; " + script, .workers = {script, script}}, kPatient));
  launcher.await("] ready", 3);
  launcher.signal(SIGUSR2);
  launcher.await("waits: none", 3);
  std::ofstream(dir.path("done")).put('\n');
  CHECK(launcher.wait() == 0);
}
