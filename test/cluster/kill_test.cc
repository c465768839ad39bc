// A process is killed (-9) at a random moment of a running job. What must hold: every survivor ends with the exit code
// for what it lost, within the heartbeat timeout and 2 s (or within --scheduler-grace, if the scheduler was killed); a
// survivor names the lost process; and no process, which could hold a port, and no half-written checkpoint is left.

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/random.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/drawn_seeds.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kJoinSeconds = 30;   // five processes start on two busy cores
constexpr double kMomentSeconds = 2;  // the kill comes within this time after step 0: many steps and checkpoints
constexpr double kNoise = 3;          // added to bounds: time for processes to exit and be noticed

// By default each role is killed three times, with short heartbeats. scripts/test draws the seeds from the commit.
// DTRAIN_KILL_SEEDS=1-50 and DTRAIN_KILL_HEARTBEATS=default give more kills, with the heartbeats that users have
// (CONTRIBUTING.md has the command).
struct Campaign {
  DrawnSeeds seeds = {.first = 1, .last = 3};
  Heartbeats heartbeats = Heartbeats::kShort;

  static Campaign from_environment() {
    Campaign campaign;
    campaign.seeds = drawn_seeds("DTRAIN_KILL_SEEDS", campaign.seeds);
    const char* heartbeats = std::getenv("DTRAIN_KILL_HEARTBEATS");
    if (heartbeats != nullptr && std::string(heartbeats) == "default") campaign.heartbeats = Heartbeats::kDefault;
    return campaign;
  }

  // In seconds: --heartbeat-timeout plus 2 s until every survivor has heard of the loss; --scheduler-grace.
  [[nodiscard]] double detection() const { return heartbeats == Heartbeats::kShort ? 3 + 2 : 10 + 2; }
  [[nodiscard]] double grace() const { return heartbeats == Heartbeats::kShort ? 2 : 30; }

  // `seconds_of(seed)` kills a process and returns the seconds until the last survivor ended.
  template <class SecondsOf>
  void run(SecondsOf&& seconds_of) const {
    double longest = 0;
    for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) longest = std::max(longest, seconds_of(seed));
    WARN("seeds " << seeds.first << " to " << seeds.last << ": the last survivor ended " << longest
                  << " s after the death");
  }
};

struct Death {
  std::string role;
  int rank = 0;
  std::string survivors_code;  // all survivors end with this exit code
  double bound = 0;            // seconds
  bool has_servers = true;     // false: 3 workers of two devices each, which use all-reduce
};

// Returns the seconds from the kill to the end of the last survivor.
double kill_and_check(const Death& death, Heartbeats heartbeats, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  JobSetting setting{.flags = endless_training(heartbeats)};
  if (!death.has_servers) {
    setting.workers = 3;
    setting.servers = 0;
    setting.flags.insert(setting.flags.end(), {"--kv-store", "allreduce", "--cpus", "2"});
  }
  LoopbackJob job(setting);
  INFO("seed " << seed << ", killed: " << death.role << " " << death.rank);
  const bool started = job.await_step(1, kJoinSeconds);
  INFO(job.output());
  REQUIRE(started);
  job.run_for(random.uniform(0, kMomentSeconds));

  LoopbackJob::Member& victim = job.member(death.role, death.rank);
  REQUIRE(victim.process->running());
  victim.process->signal(SIGKILL);
  const auto death_at = std::chrono::steady_clock::now();
  const bool ended = job.await_end(death.bound + kNoise);
  INFO("now:\n" << job.output());
  INFO("still running: " << job.running());
  REQUIRE(ended);

  std::string said;
  double longest = 0;
  for (const LoopbackJob::Member& member : job.members()) {
    if (&member == &victim) continue;
    INFO(member.name());
    CHECK(std::to_string(member.ended->code) == death.survivors_code);
    said += member.process->output();
    longest = std::max(longest, std::chrono::duration<double>(member.ended_at - death_at).count());
  }
  CHECK(victim.ended->signal == SIGKILL);
  CHECK(said.find(victim.name()) != std::string::npos);
  CHECK(left_over(job.run_dir()).empty());
  CHECK(broken_files(job.run_dir()).empty());
  return longest;
}

}  // namespace

TEST_CASE("when a worker is killed all others end and name it", "[kill-worker]") {
  const Campaign campaign = Campaign::from_environment();
  campaign.run([&](uint64_t seed) {
    const Death death = {"worker", static_cast<int>(seed % 2), "5", campaign.detection()};
    return kill_and_check(death, campaign.heartbeats, seed);
  });
}

TEST_CASE("when a worker of a job without servers is killed all others end and name it", "[kill-allreduce]") {
  const Campaign campaign = Campaign::from_environment();
  campaign.run([&](uint64_t seed) {
    const Death death = {"worker", static_cast<int>(seed % 3), "5", campaign.detection(), false};
    return kill_and_check(death, campaign.heartbeats, 300 + seed);
  });
}

TEST_CASE("when a server is killed all others end and name it", "[kill-server]") {
  const Campaign campaign = Campaign::from_environment();
  campaign.run([&](uint64_t seed) {
    const Death death = {"server", static_cast<int>(seed % 2), "5", campaign.detection()};
    return kill_and_check(death, campaign.heartbeats, 100 + seed);
  });
}

TEST_CASE("when the scheduler is killed all others end after the grace time", "[kill-scheduler]") {
  const Campaign campaign = Campaign::from_environment();
  campaign.run([&](uint64_t seed) {
    const Death death = {"scheduler", 0, "4", campaign.detection() + campaign.grace()};
    return kill_and_check(death, campaign.heartbeats, 200 + seed);
  });
}
