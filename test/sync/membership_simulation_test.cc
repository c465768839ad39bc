// Whole jobs in virtual time (simulated_members.h), from many seeds.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "simulated_members.h"
#include "support/catch.h"
#include "support/drawn_seeds.h"

namespace dtrain::sync::membership {
namespace {

// True if the workers of each set have done the same number of steps.
bool sets_agree(const Outcome& run) {
  return std::ranges::all_of(run.steps_of_set, [](const std::vector<uint64_t>& steps) {
    return std::ranges::all_of(steps, [&](uint64_t count) { return count == steps.front(); });
  });
}
bool workers_differ(const Outcome& run) {
  std::set<uint64_t> counts;
  for (const std::vector<uint64_t>& steps : run.steps_of_set) counts.insert(steps.begin(), steps.end());
  return counts.size() > 1;
}

}  // namespace

// Streams break and are reopened now and then, and nothing else happens: every worker does every step and leaves.
TEST_CASE("an undisturbed job succeeds under any delays", "[sync][membership][sim]") {
  uint64_t reconnects = 0;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(seed, Disturbance::kCalm);
    REQUIRE(run.ended);
    REQUIRE_FALSE(run.failure.has_value());
    REQUIRE(run.survivors_ended);
    REQUIRE_FALSE(run.barrier_was_early);
    REQUIRE(sets_agree(run));
    REQUIRE(simulate(seed, Disturbance::kCalm).trace == run.trace);
    reconnects += run.reconnects;
  }
  CHECK(reconnects > 100);  // a path that no seed took has not been tested
}

// One process dies: its connection closes, or its host goes silent. Every survivor learns which process it was within
// the timeout (3 s here) + 2 s, and the scheduler ends.
TEST_CASE("all processes end in time and name a lost process", "[sync][membership][sim]") {
  uint64_t detected = 0;
  for (const Disturbance disturbance : {Disturbance::kCrash, Disturbance::kSilence}) {
    for (uint64_t seed = 1; seed <= 500; seed++) {
      INFO("seed " << seed << " disturbance " << static_cast<int>(disturbance));
      const Outcome run = simulate(seed, disturbance);
      REQUIRE(run.ended);
      REQUIRE(run.survivors_ended);
      REQUIRE(run.detection_ms <= (disturbance == Disturbance::kCrash ? 2'000 : 5'000));
      if (!run.failure) continue;  // it died after its work, or the job was already over
      detected++;
      REQUIRE(run.failure->code == Code::kPeerLost);
      REQUIRE_THAT(run.failure->message, Catch::Contains("was lost"));
      for (const std::string& message : run.heard) REQUIRE(message == run.failure->message);
    }
  }
  CHECK(detected > 100);
}

// Connections between workers and one server are cut, and some are open again soon. The simulation computes from the
// cuts who is lost. The timeout is 3 s, a heartbeat may wait 500 ms for its stream, and a message takes up to 20 ms.
TEST_CASE("of a cut connection the right end is lost, in time, and all learn which", "[sync][membership][sim]") {
  uint64_t lost_workers = 0, lost_servers = 0, mended = 0;
  for (uint64_t seed = 1; seed <= 2'000; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(seed, Disturbance::kCut);
    INFO(run.trace);
    REQUIRE(run.ended);
    REQUIRE(run.survivors_ended);
    REQUIRE(simulate(seed, Disturbance::kCut).trace == run.trace);
    if (!run.lost) {
      REQUIRE_FALSE(run.failure);
      if (run.mended_links > 0) mended++;
      continue;
    }
    REQUIRE(run.is_right_one_lost);
    REQUIRE(run.since_first_cut_ms >= 3'000);
    REQUIRE(run.since_first_cut_ms <= 3'200);
    REQUIRE(run.failure);
    REQUIRE(run.failure->code == Code::kPeerLost);
    for (const std::string& message : run.heard) REQUIRE(message == run.failure->message);
    (run.lost->role == Role::kWorker ? lost_workers : lost_servers)++;
  }
  CHECK(lost_workers > 100);
  CHECK(lost_servers > 100);
  CHECK(mended > 50);
}

// Whenever the signal comes, the workers of each set stop before the same step. No worker waits for one that never
// begins the step, nor at the end of an epoch for one that never arrives.
TEST_CASE("the workers of each stop set stop before the same step", "[sync][membership][sim]") {
  uint64_t stopped = 0, differed = 0, at_epochs_end = 0, regrouped = 0;
  for (uint64_t seed = 1; seed <= 4'000; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(seed, Disturbance::kStop);
    REQUIRE(run.ended);
    if (run.failure) REQUIRE(run.failure->code == Code::kPreempted);
    const bool before_start =
        std::ranges::all_of(run.steps_of_set, [](const auto& of_workers) { return of_workers.empty(); });
    if (before_start) continue;
    REQUIRE(run.survivors_ended);
    REQUIRE(sets_agree(run));
    if (run.failure) REQUIRE(run.stopping_ms <= 3'000);
    REQUIRE(simulate(seed, Disturbance::kStop).trace == run.trace);
    if (!run.was_stopped || !run.failure) continue;
    stopped++;
    if (workers_differ(run)) differed++;
    if (run.met_at_epochs_end) at_epochs_end++;
    if (run.regrouped > 0) regrouped++;
  }
  CHECK(stopped > 100);
  CHECK(differed > 50);
  CHECK(at_epochs_end > 20);
  CHECK(regrouped > 100);
}

namespace {

struct NamedCourse {
  const char* name;
  Scheme scheme;
  OnWorkerLoss on_loss;
};
// Each scheme with both policies.
constexpr NamedCourse kPolicies[] = {
    {"dist_sync, wait", Scheme::kBsp, OnWorkerLoss::kWait},
    {"dist_sync, shrink", Scheme::kBsp, OnWorkerLoss::kShrink},
    {"dist_sync --backup, wait", Scheme::kBackup, OnWorkerLoss::kWait},
    {"dist_sync --backup, shrink", Scheme::kBackup, OnWorkerLoss::kShrink},
    {"dist_async, wait", Scheme::kAsp, OnWorkerLoss::kWait},
    {"dist_async, shrink", Scheme::kAsp, OnWorkerLoss::kShrink},
    {"dist_ssync, wait", Scheme::kSsp, OnWorkerLoss::kWait},
    {"dist_ssync, shrink", Scheme::kSsp, OnWorkerLoss::kShrink},
    {"dist_gsync, wait", Scheme::kGsp, OnWorkerLoss::kWait},
    {"dist_gsync, shrink", Scheme::kGsp, OnWorkerLoss::kShrink},
    {"dist_sync --update-on worker, fail", Scheme::kUpdateOnWorker, OnWorkerLoss::kFail},
    {"dist_sync --update-on worker, wait", Scheme::kUpdateOnWorker, OnWorkerLoss::kWait},
    {"dist_sync --update-on worker, shrink", Scheme::kUpdateOnWorker, OnWorkerLoss::kShrink},
    {"allreduce, fail", Scheme::kAllReduce, OnWorkerLoss::kFail},
    {"allreduce, wait", Scheme::kAllReduce, OnWorkerLoss::kWait},
    {"allreduce, shrink", Scheme::kAllReduce, OnWorkerLoss::kShrink},
    {"allreduce in parts, fail", Scheme::kReduceScatter, OnWorkerLoss::kFail},
    {"allreduce in parts, wait", Scheme::kReduceScatter, OnWorkerLoss::kWait},
    {"allreduce in parts, shrink", Scheme::kReduceScatter, OnWorkerLoss::kShrink},
};

// What must have happened in some job with servers, and in some job without; a path that no seed took has not been
// tested.
constexpr std::string_view kPaths[] = {
    "a border was passed",
    "a job continued without a lost worker",
    "a job ended well",
    "a job was stopped",
    "a joining worker was dropped",
    "a lost process was told so",
    "a lost worker got another seat",
    "a lost worker got no seat again",
    "a lost worker took part again",
    "a lost worker was replaced",
    "a process was lost that lives",
    "a process was lost while draining",
    "a process was lost while failing",
    "a process was lost while gathering",
    "a process was lost while holding",
    "a process was lost while meeting",
    "a process was lost while preparing",
    "a process was lost while running",
    "a process was lost while starting",
    "a process was lost while stopping",
    "a worker joined",
    "a worker was lost between its answer and the border",
    "a worker was lost while another one was about to begin",
    "nobody took the place of a lost worker",
    "the position was not handed over",
    "two at once: joiner and joiner",
    "two at once: worker and joiner",
    "two at once: worker and worker",
};

// The same for jobs with servers alone.
constexpr std::string_view kServerPaths[] = {
    "a gradient came again",
    "a gradient came too late for its round",
    "a process slept",
    "a process was lost while finishing",
    "a record was left out",
    "a request to leave was refused",
    "a server refused a process without a seat",
    "a step was torn by a loss",
    "a stream was stuck",
    "a worker and a server lost each other",
    "a worker gave its weights to the servers",
    "a worker joined a round that has a gradient of its seat",
    "a worker joined a slice that was ahead of it",
    "a worker left",
    "a worker was left behind and jumped",
    "a worker was lost too often",
    "a worker was lost with its gradient in an open round",
    "a worker was turned away",
    "all workers were asked to leave",
    "two at once: joiner and server",
    "two at once: server and server",
    "two at once: worker and server",
};

// And for jobs without.
constexpr std::string_view kGroupPaths[] = {
    "a bucket had its update already when its step was made again",
    "a bucket was taken over from another worker",
    "a group could not be made at once",
    "a group was made with a new worker",
    "a group was torn",
    "a group was torn at the end of an epoch",
    "a lost worker's last gradient counts, and its records were read again",
    "a run could not go back, because other workers had divided the records",
    "a run went back",
    "a run went back although nobody was lost",
    "a step would mix weights of two versions",
    "a worker began its step again",
    "a worker did not reach another one",
    "a worker left a group",
    "a worker went back to the step before",
    "an epoch did not count, because a worker was lost",
    "an epoch ended with the bits of one without a loss",
    "an epoch was not ended, because a worker was lost",
    "going back was interrupted",
    "of two workers that missed each other one was lost",
    "the statistics were to be shared again",
    "the workers that had the weights were lost",
    "two workers lost each other",
};

// And for jobs whose servers are replaced.
constexpr std::string_view kLossOfServerPaths[] = {
    "a job continued without a lost server",
    "a job ended well",
    "a job was stopped",
    "a lost server was replaced",
    "a lost worker was replaced",
    "a process was lost that lives",
    "a process was lost while draining",
    "a process was lost while holding",
    "a process was lost while meeting",
    "a process was lost while running",
    "a process was lost while stopping",
    "a server died soon after it went back",
    "a server learned that it counts as lost",
    "a server was lost while another one was missing",
    "a server was lost while the statistics were shared",
    "a server was lost while workers went back",
    "a server was turned away",
    "a snapshot could not be written",
    "a worker could not begin, because a server was lost",
    "a worker joined",
    "a worker left",
    "a worker was at a border when all went back",
    "a worker was lost while another one was about to begin",
    "a worker went back that had completed its step",
    "a worker went back to a step before its first one",
    "all went back after a server was lost",
    "all went back on the way to a border",
    "all went back to the initial weights",
    "all went back while holding",
    "all went back while stopping",
    "an epoch ended with the bits of one without a loss",
    "nobody took the place of a lost server",
    "the scheduler was killed while a server was missing",
    "the scheduler was killed while servers went back",
    "two at once: joiner and server",
    "two at once: server and scheduler",
    "two at once: server and server",
    "two at once: worker and server",
    "workers went back once more",
};

void expect_all(std::span<const std::string_view> wanted, const std::map<std::string_view, uint64_t>& seen) {
  for (const std::string_view path : wanted) {
    INFO(path);
    CHECK(seen.contains(path));
  }
}

void check(const Outcome& run, const NamedCourse& policy) {
  REQUIRE(run.broken == "");
  REQUIRE(run.ended);
  REQUIRE_FALSE(run.barrier_was_early);
  REQUIRE_FALSE(run.border_was_uneven);
  REQUIRE_FALSE(run.has_gone_on_without);
  if (run.failure && !run.has_trained) return;  // it was asked to stop, or a process was lost, before the start
  REQUIRE(run.survivors_ended);
  if (!run.failure) REQUIRE(run.has_finished);
  if (!run.failure) REQUIRE(run.unanswered.empty());
  if (!run.failure || run.failure->code == Code::kPreempted) {
    if (is_bsp(policy.scheme)) REQUIRE(sets_agree(run));
    return;
  }
  REQUIRE(run.failure->code == Code::kPeerLost);
  if (policy.on_loss == OnWorkerLoss::kFail) return;
  REQUIRE_FALSE(run.has_lacked_snapshots);
  REQUIRE((run.has_lacked_replacement || run.has_lost_server || run.may_lack_snapshots || !run.has_survivor));
}

// Simulates the job of this seed and checks it; of some seeds, also that the same seed gives the same job.
Outcome checked(uint64_t seed, const NamedCourse& policy, Climate climate) {
  INFO(policy.name << ", climate " << static_cast<int>(climate) << ", seed " << seed);
  const Course course{policy.scheme, policy.on_loss, climate};
  Outcome run = simulate(seed, course);
  INFO(run.trace);
  check(run, policy);
  if (seed % 50 == 0) REQUIRE(simulate(seed, course).trace == run.trace);
  return run;
}

}  // namespace

// Workers join, leave, meet, crash, sleep and are cut off, one after the other or at once, wherever they are.
// DTRAIN_MEMBERS_SEEDS=1-100000 draws more jobs.
TEST_CASE("whole jobs keep what the audit demands while workers come and go", "[sync][membership][sim]") {
  const test::DrawnSeeds seeds = test::drawn_seeds("DTRAIN_MEMBERS_SEEDS", {1, 1'000});
  std::map<std::string_view, uint64_t> with_servers, in_groups;
  for (const NamedCourse& policy : kPolicies) {
    std::map<std::string_view, uint64_t>& paths = has_servers(policy.scheme) ? with_servers : in_groups;
    for (const Climate climate : {Climate::kFair, Climate::kCrashes, Climate::kLate, Climate::kTwo}) {
      for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
        const Outcome run = checked(seed, policy, climate);
        for (const auto& [path, count] : run.paths) paths[path] += count;
      }
    }
  }
  if (seeds.last - seeds.first < 999) return;
  expect_all(kPaths, with_servers);
  expect_all(kServerPaths, with_servers);
  expect_all(kPaths, in_groups);
  expect_all(kGroupPaths, in_groups);
}

// Servers die, sleep and are replaced, alone or together with others, wherever the job is. All go back to snapshots.
TEST_CASE("whole jobs go back and continue when servers are lost", "[sync][membership][sim]") {
  constexpr NamedCourse kReturning[] = {{"dist_sync, fail", Scheme::kBsp, OnWorkerLoss::kFail},
                                        {"dist_sync, wait", Scheme::kBsp, OnWorkerLoss::kWait},
                                        {"dist_sync, shrink", Scheme::kBsp, OnWorkerLoss::kShrink}};
  const test::DrawnSeeds seeds = test::drawn_seeds("DTRAIN_MEMBERS_SEEDS", {1, 2'500});
  std::map<std::string_view, uint64_t> paths;
  for (const NamedCourse& policy : kReturning) {
    for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
      const Outcome run = checked(seed, policy, Climate::kServers);
      for (const auto& [path, count] : run.paths) paths[path] += count;
    }
  }
  if (seeds.last - seeds.first < 999) return;
  expect_all(kLossOfServerPaths, paths);
}

// The group that waits for another worker in the place of a lost one stands still, and the others may be ahead of it
// when a further worker joins and all divide the rest of the epoch.
TEST_CASE("groups of which one is behind at a border end their epoch after the same step", "[sync][membership][sim]") {
  (void)checked(2533, {"dist_gsync, wait", Scheme::kGsp, OnWorkerLoss::kWait}, Climate::kCrashes);
}

// Jobs in which a process got two answers to the same request while the scheduler came back, before the simulation kept
// such answers apart.
TEST_CASE("a worker that joins while the scheduler comes back joins once", "[sync][membership][sim]") {
  constexpr std::pair<const char*, uint64_t> kJobs[] = {{"dist_sync, wait", 1024},
                                                        {"dist_sync --backup, wait", 359},
                                                        {"dist_ssync, wait", 1804},
                                                        {"dist_ssync, wait", 2561},
                                                        {"allreduce in parts, wait", 671}};
  for (const auto& [name, seed] : kJobs) {
    const auto policy =
        std::ranges::find_if(kPolicies, [&](const NamedCourse& one) { return one.name == std::string_view(name); });
    REQUIRE(policy != std::ranges::end(kPolicies));
    (void)checked(seed, *policy, Climate::kScheduler);
  }
}

// The scheduler is killed up to three times, also right before and after each kind of record is in its file, and comes
// back with what the file says.
TEST_CASE("whole jobs continue when their scheduler is killed and comes back", "[sync][membership][sim]") {
  constexpr std::string_view kReturns[] = {
      "the scheduler was killed after a record that explains what nobody has heard",
      "the scheduler was killed before a record",
      "the scheduler was killed three times",
      "the scheduler was killed while draining",
      "the scheduler was killed while failing",
      "the scheduler was killed while finishing",
      "the scheduler was killed while gathering",
      "the scheduler was killed while holding",
      "the scheduler was killed while meeting",
      "the scheduler was killed while preparing",
      "the scheduler was killed while running",
      "the scheduler was killed while starting",
      "the scheduler was killed while stopping",
      "a job ended well",
      "a job was stopped",
      "a lost worker was replaced",
      "a worker joined",
      "a worker left",
  };
  const test::DrawnSeeds seeds = test::drawn_seeds("DTRAIN_MEMBERS_SEEDS", {1, 1'200});
  std::map<std::string_view, uint64_t> paths;
  for (const NamedCourse& policy : kPolicies) {
    for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
      const Outcome run = checked(seed, policy, Climate::kScheduler);
      for (const auto& [path, count] : run.paths) paths[path] += count;
    }
  }
  if (seeds.last - seeds.first < 999) return;
  for (const std::string_view path : kReturns) {
    INFO(path);
    CHECK(paths[path] > 0);
  }
}

}  // namespace dtrain::sync::membership
