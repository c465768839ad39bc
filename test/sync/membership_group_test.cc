// Jobs without servers, whose workers add up their gradients in a group that needs every member.
#include "membership_conversation.h"

namespace dtrain::sync::membership {
namespace {

constexpr Incarnation kReplacement = 300;

Settings group(OnWorkerLoss policy, uint32_t workers, uint32_t seats = 0) {
  Settings its = settings(workers, 0);
  its.on_worker_loss = policy;
  its.max_workers = seats;
  its.stands_still = policy == OnWorkerLoss::kWait;
  return its;
}

// The worker comes to a barrier in the middle of a step.
BarrierEnter torn(uint32_t rank, uint64_t seq, bool is_whole = false) {
  BarrierEnter enter = meeting(rank, seq);
  enter.is_torn = true;
  enter.is_whole = is_whole;
  return enter;
}

std::vector<Effect> lose(Conversation& job, Millis now, uint32_t rank) {
  return job.say(now, ProcessEnded{{Role::kWorker, rank}, "was killed by signal 9 (Killed)"});
}

}  // namespace

TEST_CASE("the others of a torn group meet where they are, and no hold is left behind", "[sync][membership]") {
  Settings its = group(OnWorkerLoss::kShrink, 3);
  its.meets_on_change = true;
  Conversation job = training(its);
  CHECK(all<ReleaseBarrier>(job.say(100, torn(0, 1))).empty());
  const auto lost = lose(job, 200, 2);
  CHECK(notices<View>(lost).size() == 3);
  CHECK(notices<Hold>(lost).size() == 2);
  CHECK(notices<StopAfter>(job.say(210, Held{Conversation::worker(0), 1, 7})).empty());
  const auto released = all<ReleaseBarrier>(job.say(220, torn(1, 1)));
  REQUIRE(released.size() == 1);
  CHECK(released[0].gone == std::vector<uint32_t>{2});
  CHECK(released[0].passed == 1);
  // The late answer to the hold is of no interest anymore.
  CHECK(job.say(230, Held{Conversation::worker(1), 1, 7}).empty());
  CHECK(all<ReleaseBarrier>(job.say(300, meeting(0, 2))).empty());
  CHECK(all<ReleaseBarrier>(job.say(310, meeting(1, 2))).at(0).passed == 0);
}

TEST_CASE("a torn group under wait meets with the replacement", "[sync][membership]") {
  Conversation job = training(group(OnWorkerLoss::kWait, 2));
  (void)lose(job, 100, 0);
  CHECK(all<ReleaseBarrier>(job.say(110, torn(1, 1))).empty());
  (void)job.say(200, Join{.incarnation = kReplacement, .want_rank = 0, .job_text = "", .is_late = true});
  (void)job.say(210, StreamOpened{kReplacement});
  const auto ready = job.say(220, BarrierEnter{.incarnation = kReplacement, .name = "joining", .joins = true});
  CHECK(all<DeclareJoined>(ready).size() == 1);
  const auto released = all<ReleaseBarrier>(ready);
  REQUIRE(released.size() == 1);
  CHECK(released[0].joined == std::vector<uint32_t>{0});
  CHECK(released[0].gone.empty());
}

TEST_CASE("at the end of an epoch, a torn group continues without a replacement and meets it later",
          "[sync][membership]") {
  Conversation job = training(group(OnWorkerLoss::kWait, 3));
  (void)lose(job, 100, 0);
  (void)job.say(110, torn(1, 1));
  const auto released = all<ReleaseBarrier>(job.say(120, torn(2, 1, true)));
  REQUIRE(released.size() == 1);
  CHECK(released[0].passed == 0);
  (void)job.say(130, Held{Conversation::worker(1), 1, 7});
  const auto told = notices<StopAfter>(job.say(140, Held{Conversation::worker(2), 1, 7}));
  REQUIRE(told.size() == 2);
  CHECK(told[0].meets);
}

TEST_CASE("a job that is asked to stop makes its last steps with a new group", "[sync][membership]") {
  Conversation job = training(group(OnWorkerLoss::kShrink, 3));
  (void)job.say(100, StopRequested{"the scheduler"});
  (void)lose(job, 110, 2);
  (void)job.say(120, Held{Conversation::worker(0), 1, 8});
  CHECK(notices<StopAfter>(job.say(130, Held{Conversation::worker(1), 1, 7})).at(0).steps == 8);
  (void)job.say(140, torn(0, 1));
  const auto released = all<ReleaseBarrier>(job.say(150, torn(1, 1)));
  REQUIRE(released.size() == 1);
  CHECK(released[0].passed == 0);  // they still stop after step 8
}

TEST_CASE("a worker leaves a group at a border, so that its last step is complete", "[sync][membership]") {
  Conversation job = training(group(OnWorkerLoss::kShrink, 3));
  const auto asked = job.say(100, LeaveAsked{.rank = 1});
  REQUIRE(notices<LeaveJob>(asked).size() == 1);
  CHECK(notices<LeaveJob>(asked)[0].at_border);
  CHECK(notices<Hold>(asked).size() == 3);
  // If the group is torn before, the worker is still to leave, at another border.
  for (const uint32_t rank : {0, 1}) (void)job.say(110, torn(rank, 1));
  CHECK(all<ReleaseBarrier>(job.say(120, torn(2, 1))).size() == 1);
  CHECK(notices<Hold>(job.say(130, Tick{})).size() == 3);
  for (const uint32_t rank : {0, 1, 2}) (void)job.say(140, Held{Conversation::worker(rank), 2, 9});
  BarrierEnter enter = meeting(0, 2);
  enter.border = 2;
  (void)job.say(150, enter);
  enter.incarnation = Conversation::worker(2);
  CHECK(all<ReleaseBarrier>(job.say(160, enter)).empty());
  const auto left = job.say(170, Done{.incarnation = Conversation::worker(1), .steps_begun = 9, .has_left = true});
  CHECK(all<DeclareLeft>(left).size() == 1);
  REQUIRE(all<ReleaseBarrier>(left).size() == 1);
  CHECK(all<ReleaseBarrier>(left)[0].gone == std::vector<uint32_t>{1});
}

namespace {

// Who could not connect to whom, by rank; nullopt: the worker reached all others, or gave up because another one did.
using Misses = std::vector<std::optional<uint32_t>>;

// The group cannot be made. Returns what the scheduler does when the last worker says so.
std::vector<Effect> miss(Conversation& job, Millis now, uint64_t seq, const Misses& misses) {
  std::vector<Effect> last;
  for (uint32_t rank = 0; rank < misses.size(); rank++) {
    BarrierEnter enter = torn(rank, seq);
    enter.unreached = misses[rank];
    last = job.say(now, enter);
  }
  return last;
}
void stay_alive(Conversation& job, Millis now, uint32_t workers) {
  for (uint32_t rank = 0; rank < workers; rank++) (void)job.say(now, Heartbeat{Conversation::worker(rank)});
}

}  // namespace

TEST_CASE("of two workers that cannot connect to each other one is lost, and the others continue",
          "[sync][membership]") {
  struct Cut {
    Misses misses;
    std::optional<uint32_t> lost;
  };
  const Cut cut = GENERATE(Cut{{2, 2, 0}, 2},                        // worker 2 is cut off
                           Cut{{1, 0, 0}, 0},                        // worker 0 is
                           Cut{{1, 0, std::nullopt}, 1},             // only the two miss each other
                           Cut{{std::nullopt, 2, 1}, 2},             //
                           Cut{{std::nullopt, 0, 1}, std::nullopt},  // nobody misses one that misses it
                           Cut{{1, 2, 0}, std::nullopt});            // each misses another one
  Conversation job = training(group(OnWorkerLoss::kShrink, 3));
  CHECK(all<ReleaseBarrier>(miss(job, 100, 1, {{}, {}, {}})).size() == 1);
  // They try again at once, then when the heartbeat timeout has passed.
  CHECK(all<ReleaseBarrier>(miss(job, 1'000, 2, cut.misses)).size() == 1);
  const auto second = miss(job, 1'100, 3, cut.misses);
  CHECK(all<ReleaseBarrier>(second).size() == (cut.lost ? 0U : 1U));
  for (const Millis now : {5'000, 10'900}) {
    stay_alive(job, now, 3);
    CHECK(job.say(now, Tick{}).empty());
  }
  CHECK(all<ReleaseBarrier>(job.say(11'000, Tick{})).size() == (cut.lost ? 1U : 0U));
  const auto third = miss(job, 11'100, 4, cut.misses);
  REQUIRE(all<ReleaseBarrier>(third).size() == 1);
  REQUIRE(all<DeclareLost>(third).size() == (cut.lost ? 1U : 0U));
  if (!cut.lost) return;
  CHECK(all<DeclareLost>(third)[0].member == Member{Role::kWorker, *cut.lost});
  CHECK_THAT(all<DeclareLost>(third)[0].why, Catch::Contains("could not connect to each other for 10.1 s"));
  CHECK(all<ReleaseBarrier>(third)[0].gone == std::vector<uint32_t>{*cut.lost});
}

TEST_CASE("workers that reach each other in the end, or another one than before, are not lost", "[sync][membership]") {
  Conversation job = training(group(OnWorkerLoss::kShrink, 3));
  (void)miss(job, 1'000, 1, {1, 0, {}});
  CHECK(all<ReleaseBarrier>(miss(job, 1'100, 2, {{}, 2, 1})).size() == 1);
  CHECK(all<ReleaseBarrier>(miss(job, 1'200, 3, {1, 0, {}})).size() == 1);
  // Another loss explains it.
  CHECK(all<ReleaseBarrier>(miss(job, 1'300, 4, {1, 0, {}})).empty());
  CHECK(all<ReleaseBarrier>(lose(job, 1'400, 0)).size() == 1);
}

}  // namespace dtrain::sync::membership
