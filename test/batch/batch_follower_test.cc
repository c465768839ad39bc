// A launcher that follows a job of a batch system. The system is a directory: its commands are short shell scripts, and
// the test writes the job's state into the file `now`.
#include "cluster/batch_follower.h"

#include <algorithm>
#include <csignal>

#include "base/file.h"
#include "job/process/exit_code.h"
#include "launch/supervised.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain::cluster::test {
namespace {

using namespace launch::test;
using dtrain::test::must;

// The states: "waiting REASON", "running", "ended CODE", "killed", "unknown"; anything else is no answer. With "never"
// as the reason it will never start.
class DirectorySystem : public BatchSystem {
 public:
  DirectorySystem(std::string dir, std::string submit) : dir_(std::move(dir)), submit_(std::move(submit)) {}

  [[nodiscard]] std::string name() const override { return "Directory"; }
  [[nodiscard]] std::string missing() const override { return "install it"; }
  [[nodiscard]] Words submit() const override { return submit_.empty() ? Words{"no-such-program"} : script(submit_); }
  [[nodiscard]] Result<std::string> job_of(const Words& lines) const override { return lines.at(0); }
  [[nodiscard]] Words list() const override { return script("echo list >> calls; cat list"); }
  [[nodiscard]] std::optional<std::string> job_in(const Words& lines) const override {
    return lines.empty() ? std::nullopt : std::optional(lines[0]);
  }
  [[nodiscard]] Words question(const std::string&) const override { return script("cat now"); }
  [[nodiscard]] Result<BatchState> state_of(const std::string&, const proc::Finished& answer) const override;
  [[nodiscard]] Words queue(const std::string&, const BatchState&) const override {
    return script("echo 3; echo 12; : > place");
  }
  [[nodiscard]] std::string position_in(const Words& lines, const std::string& job) const override {
    return lines.size() == 2 && lines[1] == job ? "position 2 of 2" : "";
  }
  [[nodiscard]] Words signal(const std::string& job, int number) const override {
    return script(fmt::format("echo signal {} {} >> calls", number, job));
  }
  [[nodiscard]] Words cancel(const std::string& job) const override {
    return script("echo cancel " + job + " >> calls; grep -q running now && more=later; echo killed $more > now");
  }
  [[nodiscard]] std::string output_file(const std::string&) const override { return dir_ + "/output"; }
  [[nodiscard]] std::string code_file(const std::string&) const override { return dir_ + "/code"; }

 private:
  [[nodiscard]] Words script(const std::string& text) const { return {"sh", "-c", "cd " + dir_ + "; " + text}; }
  std::string dir_, submit_;
};

Result<BatchState> DirectorySystem::state_of(const std::string&, const proc::Finished& answer) const {
  const std::string line = answer.output.empty() ? "" : answer.output[0];
  const std::string second = line.substr(std::min(line.size(), line.find(' ') + 1));
  BatchState state{.queue = "all", .failure = {}};
  state.restarts = line.find("again") == std::string::npos ? 0 : 1;
  if (line.starts_with("waiting")) {
    state.text = "waiting: " + second;
    if (second == "never") state.never = "the queue is too small";
    if (second == "held") state.advice = "release it";
  } else if (line.starts_with("running")) {
    state.phase = BatchState::Phase::kRunning;
    state.text = "runs on a host";
  } else if (line.starts_with("ended")) {
    state.phase = BatchState::Phase::kEnded;
    state.code = std::stoi(second);
  } else if (line.starts_with("killed")) {
    state.phase = BatchState::Phase::kEnded;
    state.failure = Error{second == "later" ? Code::kPeerLost : Code::kStartup, "Directory has killed it", {}};
  } else {
    return fail(line == "unknown" ? Code::kNotFound : Code::kUnavailable, "no answer");
  }
  return state;
}

class Following {
 public:
  explicit Following(const std::string& submit = "echo 12", FollowLimits::Duration submit_limit = 20s)
      : system_(dir_.path(), submit) {
    limits_ = {.submit = submit_limit,
               .ask_first = 20ms,
               .ask_last = 50ms,
               .look = 20ms,
               .output = 100ms,
               .first_place = 0ms,
               .hopeless = 0ms};
    now("waiting for hosts");
    write("list", "");
  }
  void start() {
    launcher_.emplace([this](launch::Screen& screen) {
      const Result<int> code = run_batch_job(system_, limits_, screen);
      if (!code) screen.line(code.error().text());
      return code ? *code : job::exit_code(code.error().code);
    });
  }
  void now(const std::string& state) const { write("now", state + "\n"); }
  void write(const std::string& file, const std::string& text) const { must(write_file_atomic(dir_.path(file), text)); }
  void print(const std::string& text) const { std::ofstream(dir_.path("output"), std::ios::app) << text << "\n"; }
  [[nodiscard]] std::string calls() const { return read_file(dir_.path("calls")).value_or(""); }
  Launcher& launcher() { return *launcher_; }
  void await_file(const std::string& file) const {
    const auto deadline = proc::Clock::now() + kPatience;
    while (!read_file(dir_.path(file))) REQUIRE(proc::Clock::now() < deadline);
  }
  // Starts, and waits until the job runs.
  void start_running() {
    now("running");
    start();
    launcher().await("Directory job 12 runs on a host");
  }
  // The exit code, when the job has the state.
  int end(const std::string& state) {
    now(state);
    return launcher().wait();
  }

 private:
  TempDir dir_;
  DirectorySystem system_;
  FollowLimits limits_;
  std::optional<Launcher> launcher_;
};

}  // namespace

TEST_CASE("a follower shows why a job waits, what it prints, and returns its code", "[cluster][batch]") {
  Following job;
  job.start();
  job.launcher().await("dtrain: Directory job 12 was submitted; its output is in ");
  job.launcher().await("Directory job 12 is waiting: for hosts");
  job.now("running");
  job.launcher().await("dtrain: Directory job 12 runs on a host");
  job.print("[worker 0 a] hello\nepoch 1/2  step 1/9  5 samples/s");
  job.launcher().await("[worker 0 a] hello");
  job.print("the last words");
  CHECK(job.end("ended 7") == 7);
  CHECK(contains(job.launcher().output(), "epoch 1/2  step 1/9"));
  CHECK(contains(job.launcher().output(), "the last words"));
}

TEST_CASE("a job that is not submitted is an error with the system's words", "[cluster][batch]") {
  Following refused("echo no such queue >&2; exit 1");
  refused.start();
  CHECK(refused.launcher().wait() == job::kExitStartup);
  CHECK(contains(refused.launcher().output(), "ended with code 1: no such queue"));
  CHECK(refused.calls().empty());
  Following missing("");
  missing.start();
  CHECK(missing.launcher().wait() == job::kExitStartup);
  CHECK(
      contains(missing.launcher().output(), "cannot execute 'no-such-program': No such file or directory; install it"));
}

TEST_CASE("a submission that was accepted without an answer is found and cancelled", "[cluster][batch]") {
  for (const bool accepted : {true, false}) {
    Following job("sleep 100", 50ms);
    if (accepted) job.write("list", "12\n");
    job.start();
    CHECK(job.launcher().wait() == job::kExitStartup);
    INFO(job.launcher().output());
    CHECK(contains(job.launcher().output(), "did not end within 1 s"));
    CHECK(accepted ==
          contains(job.launcher().output(), "Directory had accepted the job nevertheless, so the job was cancelled"));
    CHECK(job.calls() == (accepted ? "list\ncancel 12\n" : "list\n"));
  }
  Following by_words("echo Socket timed out >&2; exit 1");
  by_words.write("list", "12\n");
  by_words.start();
  CHECK(by_words.launcher().wait() == job::kExitStartup);
  CHECK(by_words.calls() == "list\ncancel 12\n");
}

TEST_CASE("stopping the follower of a waiting job cancels the job", "[cluster][batch]") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    Following job;
    job.start();
    job.launcher().await("is waiting: for hosts");
    job.launcher().signal(signal);
    CHECK(job.launcher().wait() == job::kExitPreempted);
    CHECK(job.calls() == "cancel 12\n");
    CHECK(contains(job.launcher().output(), "stopped before the job started; Directory job 12 was cancelled"));
  }
}

TEST_CASE("a follower that is stopped while it submits cancels what it has submitted", "[cluster][batch]") {
  Following job(": > begun; while [ ! -e go ]; do sleep 0.02; done; echo 12");
  job.start();
  job.await_file("begun");
  job.launcher().signal(SIGINT);
  job.launcher().await("received signal Interrupt; the job is stopped as soon as Directory has answered");
  job.write("go", "");
  CHECK(job.launcher().wait() == job::kExitPreempted);
  CHECK(job.calls() == "cancel 12\n");
}

TEST_CASE("stopping the follower of a running job lets it write a checkpoint", "[cluster][batch]") {
  Following job;
  job.start_running();
  job.launcher().signal(SIGUSR2);
  job.launcher().signal(SIGTERM);
  job.launcher().await("stopping Directory job 12 (Terminated)");
  SECTION("it ends") {
    CHECK(job.end("ended 75") == job::kExitPreempted);
    CHECK(contains(job.calls(), "signal 15 12\n"));
    CHECK(contains(job.calls(), "signal 12 12\n"));
  }
  SECTION("a second Ctrl-C cancels it") {
    job.launcher().signal(SIGINT);
    job.launcher().await("cancelling Directory job 12");
    CHECK(job.launcher().wait() == job::kExitPeerLost);
    CHECK(contains(job.calls(), "cancel 12\n"));
  }
  SECTION("it is put back into the queue") {
    job.now("waiting again");
    CHECK(job.launcher().wait() == job::kExitPreempted);
    CHECK(contains(job.calls(), "cancel 12\n"));
  }
}

TEST_CASE("a follower stays with a job across restarts", "[cluster][batch]") {
  Following job;
  job.start_running();
  job.now("waiting again");
  job.launcher().await("dtrain: Directory has put Directory job 12 back into the queue (for the first time)");
  job.await_file("place");
  job.print("resumed");
  job.now("running again");
  job.launcher().await("Directory job 12 runs on a host", 2);
  job.launcher().await("resumed");
  CHECK(job.end("ended 0") == job::kExitOk);
}

TEST_CASE("a follower gives up a job that will never start", "[cluster][batch]") {
  Following job;
  job.now("waiting never");
  job.start();
  CHECK(job.launcher().wait() == job::kExitStartup);
  CHECK(contains(job.launcher().output(), "error [start-up] the queue is too small"));
  CHECK(job.calls() == "cancel 12\n");
}

TEST_CASE("a follower says once that the system does not answer, and what a job waits for", "[cluster][batch]") {
  Following job;
  job.now("waiting held");
  job.start();
  job.launcher().await("dtrain: release it");
  job.now("gibberish");
  job.launcher().await("dtrain: Directory does not answer; dtrain asks it again every 1 s: no answer");
  job.now("waiting held");
  job.launcher().await("dtrain: Directory answers again");
  CHECK(job.end("ended 0") == job::kExitOk);
  CHECK(job.launcher().output().find("release it") == job.launcher().output().rfind("release it"));
}

TEST_CASE("how a job ended that the system has forgotten is in its file", "[cluster][batch]") {
  Following job;
  job.start_running();
  SECTION("its code") {
    job.write("code", "6\n");
    CHECK(job.end("unknown") == job::kExitDenied);
  }
  SECTION("there is no file") {
    CHECK(job.end("unknown") == job::kExitPeerLost);
    CHECK(contains(job.launcher().output(), "Directory no longer knows job 12, so it is unknown how the job ended"));
  }
}

TEST_CASE("a job that the system ends is an error in its words, unless it has a checkpoint", "[cluster][batch]") {
  Following job;
  job.start_running();
  SECTION("killed") {
    job.write("code", "started\n");
    CHECK(job.end("killed later") == job::kExitPeerLost);
    CHECK(contains(job.launcher().output(), "error [peer lost] Directory has killed it"));
  }
  SECTION("stopped before") {
    job.write("code", "75\n");
    CHECK(job.end("killed later") == job::kExitPreempted);
    CHECK(contains(job.launcher().output(), "dtrain: Directory has killed it"));
  }
}

TEST_CASE("a follower says that it cannot see a job's output", "[cluster][batch]") {
  Following job;
  job.start_running();
  job.launcher().await("does not exist on this host: is the run directory on a file system that this host shares");
  CHECK(job.end("ended 0") == job::kExitOk);
}

}  // namespace dtrain::cluster::test
