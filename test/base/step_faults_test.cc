#include "base/step_faults.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/patience.h"

#include <csignal>
#include <future>
#include <thread>

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

// Forks a process that goes through the steps. Returns the signal that killed it, or 0 if it reached the end.
int killed_by(const KillSwitch& kill_switch, const std::vector<uint64_t>& steps) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const uint64_t step : steps) kill_switch.reached(step);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("a process is killed at its step, or at the first step after it", "[base]") {
  CHECK(killed_by(KillSwitch(std::nullopt), {0, 1, 2}) == 0);
  CHECK(killed_by(KillSwitch(3), {0, 1, 2}) == 0);
  CHECK(killed_by(KillSwitch(3), {0, 1, 2, 3, 4}) == SIGKILL);
  CHECK(killed_by(KillSwitch(3), {0, 1, 5}) == SIGKILL);
  CHECK(killed_by(KillSwitch(0), {0}) == SIGKILL);
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
