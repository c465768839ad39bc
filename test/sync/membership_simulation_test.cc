// Whole jobs in virtual time (simulated_members.h), from many seeds.
#include <algorithm>
#include <set>

#include "simulated_members.h"
#include "support/catch.h"

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
  for (uint64_t seed = 1; seed <= 2'000; seed++) {
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

// Any number of workers crash or are asked to leave, one after the other or at once, wherever they are, and the job is
// perhaps asked to stop.
TEST_CASE("a job that may shrink trains to its end as long as a worker is left", "[sync][membership][sim]") {
  uint64_t continued = 0, lost_several = 0, stopped = 0, all_lost = 0, left = 0, refused = 0, drained = 0, borders = 0;
  for (uint64_t seed = 1; seed <= 3'000; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(seed, Disturbance::kShrink);
    INFO(run.trace);
    REQUIRE(run.ended);
    if (run.failure && run.failure->code == Code::kPreempted && !run.has_trained) continue;  // asked before the start
    if (!run.failure) REQUIRE(run.unanswered.empty());
    left += run.left;
    refused += run.refused;
    drained += run.drained_all > 0 && run.left == 0 && run.failure && run.failure->code == Code::kPreempted ? 1 : 0;
    REQUIRE(run.survivors_ended);
    REQUIRE_FALSE(run.barrier_was_early);
    REQUIRE_FALSE(run.border_was_uneven);
    borders += run.borders;
    REQUIRE(sets_agree(run));
    REQUIRE(simulate(seed, Disturbance::kShrink).trace == run.trace);
    if (run.failure && run.failure->code == Code::kPreempted) {
      stopped++;
    } else if (run.failure) {
      REQUIRE(run.failure->code == Code::kPeerLost);
      REQUIRE((!run.has_trained || !run.has_survivor));
      if (run.has_trained) all_lost++;
    }
    continued += run.continued;
    if (run.continued > 1) lost_several++;
  }
  CHECK(continued > 1'000);
  CHECK(lost_several > 200);
  CHECK(stopped > 200);
  CHECK(all_lost > 50);
  CHECK(borders > 300);
  CHECK(left > 200);
  CHECK(refused > 100);
  CHECK(drained > 40);
}

// Workers crash, leave and join, one after the other or at once; some crash while they join; and some jobs wait for
// others in the place of lost ones.
TEST_CASE("workers come and go while a job runs, and nobody waits for one who is not there",
          "[sync][membership][sim]") {
  uint64_t joined = 0, replaced = 0, dropped = 0, turned_away = 0, unreplaced = 0, well = 0;
  for (uint64_t seed = 1; seed <= 4'000; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(seed, Disturbance::kJoin);
    INFO(run.trace);
    REQUIRE(run.ended);
    if (run.failure && run.failure->code == Code::kPreempted && !run.has_trained) continue;  // asked before the start
    REQUIRE(run.survivors_ended);
    REQUIRE_FALSE(run.barrier_was_early);
    REQUIRE_FALSE(run.border_was_uneven);
    REQUIRE_FALSE(run.has_joined_early);
    REQUIRE_FALSE(run.has_gone_on_without);
    REQUIRE(simulate(seed, Disturbance::kJoin).trace == run.trace);
    joined += run.joined;
    replaced += run.replaced;
    dropped += run.dropped;
    turned_away += run.turned_away;
    if (!run.failure) REQUIRE(run.unanswered.empty());
    if (!run.failure) well++;
    if (!run.failure || run.failure->code == Code::kPreempted) continue;
    REQUIRE(run.failure->code == Code::kPeerLost);
    if (run.has_lacked_replacement) unreplaced++;
    REQUIRE((run.has_lacked_replacement || !run.has_trained || !run.has_survivor));
  }
  CHECK(joined > 1'000);
  CHECK(replaced > 500);
  CHECK(dropped > 100);
  CHECK(turned_away > 100);
  CHECK(unreplaced > 25);
  CHECK(well > 1'000);
}

}  // namespace dtrain::sync::membership
