// Somebody is killed (-9) at a random moment of a running job. What must hold: every survivor ends within the bound of
// R-F1 and R-F2 and with the code for what it lost, somebody says who it was, and no process, port or half-written
// checkpoint is left.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "cluster/loopback_job.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int kKills = 10;            // for each role
constexpr double kJoinSeconds = 30;   // five processes start on two busy cores
constexpr double kMomentSeconds = 2;  // the kill comes within so long after the start: many steps and checkpoints
constexpr double kDetection = 3 + 2;  // --heartbeat-timeout and what R-F1 adds
constexpr double kGrace = 2;          // --scheduler-grace
constexpr double kNoise = 1;          // of the machine: processes end and are looked at

struct Death {
  std::string role;
  int rank = 0;
  std::string survivors_code;  // of all of them
  double bound = 0;            // seconds
};

void kill_and_check(const Death& death, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  LoopbackJob job({});
  INFO("seed " << seed << ", killed: " << death.role << " " << death.rank);
  const bool started = job.await_step(0, kJoinSeconds);
  INFO(job.output());
  REQUIRE(started);
  job.run_for(random.uniform(0, kMomentSeconds));

  LoopbackJob::Member& victim = job.member(death.role, death.rank);
  REQUIRE(victim.process->running());
  victim.process->signal(SIGKILL);
  const bool ended = job.await_end(death.bound + kNoise);
  INFO("now:\n" << job.output());
  INFO("still running: " << job.running());
  REQUIRE(ended);

  std::string said;
  for (const LoopbackJob::Member& member : job.members()) {
    if (&member == &victim) continue;
    INFO(member.name());
    CHECK(std::to_string(member.ended->code) == death.survivors_code);
    said += member.process->output();
  }
  CHECK(victim.ended->signal == SIGKILL);
  CHECK(said.find(victim.name()) != std::string::npos);
  CHECK(is_free(port_of(job.address())));
  CHECK(broken_files(job.run_dir()).empty());
}

}  // namespace

TEST_CASE("when a worker is killed everybody else ends and says which", "[kill-worker]") {
  for (uint64_t seed = 1; seed <= kKills; seed++) {
    const int rank = static_cast<int>(seed % 2);
    kill_and_check({.role = "worker", .rank = rank, .survivors_code = "5", .bound = kDetection}, seed);
  }
}

TEST_CASE("when a server is killed everybody else ends and says which", "[kill-server]") {
  for (uint64_t seed = 1; seed <= kKills; seed++) {
    const int rank = static_cast<int>(seed % 2);
    kill_and_check({.role = "server", .rank = rank, .survivors_code = "5", .bound = kDetection}, 100 + seed);
  }
}

TEST_CASE("when the scheduler is killed everybody ends after its grace", "[kill-scheduler]") {
  for (uint64_t seed = 1; seed <= kKills; seed++) {
    kill_and_check({.role = "scheduler", .survivors_code = "4", .bound = kDetection + kGrace}, 200 + seed);
  }
}
