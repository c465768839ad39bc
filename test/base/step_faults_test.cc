#include "base/step_faults.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/patience.h"

#include <csignal>
#include <functional>
#include <future>
#include <thread>

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

// Forks a process that does this. Returns the signals that have stopped or killed it; one that is stopped is continued.
std::vector<int> signals_of(const std::function<void()>& action) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    action();
    _exit(0);
  }
  std::vector<int> signals;
  while (true) {
    int status = 0;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child);
    if (WIFSTOPPED(status)) {
      signals.push_back(WSTOPSIG(status));
      REQUIRE(kill(child, SIGCONT) == 0);
      continue;
    }
    if (WIFSIGNALED(status)) signals.push_back(WTERMSIG(status));
    return signals;
  }
}

std::vector<int> signals_at_steps(std::vector<FailPoint> points, const std::vector<uint64_t>& steps) {
  return signals_of([&] {
    FailPoints fail_points;
    fail_points.arm(points);
    for (const uint64_t step : steps) fail_points.reach_step(step);
  });
}

const std::vector<int> kNone, kKilled = {SIGKILL};

}  // namespace

TEST_CASE("a process is killed at its step, or at the first step after it", "[base]") {
  CHECK(signals_at_steps({}, {0, 1, 2}) == kNone);
  CHECK(signals_at_steps({{.number = 3}}, {0, 1, 2}) == kNone);
  CHECK(signals_at_steps({{.number = 3}}, {0, 1, 2, 3, 4}) == kKilled);
  CHECK(signals_at_steps({{.number = 3}}, {0, 1, 5}) == kKilled);
  CHECK(signals_at_steps({{.number = 0}}, {0}) == kKilled);
}

TEST_CASE("a process is stopped once, and killed later", "[base]") {
  CHECK(signals_at_steps({{.number = 5}, {.number = 3, .signal = SIGSTOP}}, {3, 4, 5}) ==
        std::vector<int>{SIGSTOP, SIGKILL});
}

TEST_CASE("a process is killed at the n-th message of a name, also if it learns that late", "[base]") {
  const auto signals = [](const FailPoint& point, bool is_late) {
    return signals_of([&] {
      FailPoints points;
      if (!is_late) points.arm({point});
      for (const char* name : {"join", "barrier", "data", "data"}) points.pass_message(name);
      if (is_late) points.arm({point});
      points.pass_message("barrier");
      for (int i = 0; point.later_ms > 0 && i < 1000; i++) usleep(1000);  // until it is killed
    });
  };
  for (const bool is_late : {false, true}) {
    INFO(is_late);
    CHECK(signals({.event = "barrier", .number = 2}, is_late) == kKilled);
    CHECK(signals({.event = "barrier", .number = 3}, is_late) == kNone);
    CHECK(signals({.event = "hold", .number = 1}, is_late) == kNone);
    CHECK(signals({.event = "join", .number = 1}, is_late) == (is_late ? kNone : kKilled));
    CHECK(signals({.event = "barrier", .number = 2, .later_ms = 3}, is_late) == kKilled);
  }
}

TEST_CASE("a paced step lasts at least as long as requested, counted from its beginning", "[base]") {
  Waits waits;
  Pacer pacer(15ms, waits);
  const SteadyTime begin = std::chrono::steady_clock::now();
  CHECK(pacer.wait(begin).has_value());
  CHECK(std::chrono::steady_clock::now() - begin >= 15ms);
  // A step that already took longer does not wait. If it did, this test would take an hour.
  Pacer slow(1h, waits);
  CHECK(slow.wait(begin - 1h).has_value());
  Pacer none(0ms, waits);
  CHECK(none.wait(begin).has_value());
  CHECK(waits.open().empty());
}

TEST_CASE("pacing is a wait with a name, and ends when the job fails", "[base]") {
  Waits waits;
  Pacer pacer(1h, waits);
  auto step = std::async(std::launch::async, [&] { return pacer.wait(std::chrono::steady_clock::now()); });
  dtrain::test::await([&] { return !waits.open().empty(); });
  CHECK(waits.open()[0].name == "pacing by --inject");
  pacer.cancel({Code::kPeerLost, "worker 1 was lost", {}});
  pacer.cancel({Code::kInternal, "later", {}});
  CHECK(step.get().error().message == "worker 1 was lost");
  CHECK(pacer.wait(std::chrono::steady_clock::now()).error().message == "worker 1 was lost");
}
