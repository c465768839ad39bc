// A scheduler that is killed and started again: its machine is made from the decisions of the one before.
#include "membership_conversation.h"

namespace dtrain::sync::membership {
namespace {

constexpr Incarnation kNewcomer = 300;

// The job with another machine, which knows only the decisions.
Conversation returned(const Conversation& job, Settings its, Millis now_ms) {
  Conversation next(std::move(its));
  const std::optional<Decisions> decisions = job.machine.decisions();
  REQUIRE(decisions);
  REQUIRE(next.machine.restore(*decisions, now_ms));
  CHECK(next.machine.decisions() == decisions);
  return next;
}

Settings waiting() {
  Settings its = settings(2, 1);
  its.on_worker_loss = OnWorkerLoss::kWait;
  its.stands_still = true;
  its.heartbeat_timeout_ms = 200'000;
  return its;
}

}  // namespace

TEST_CASE("nothing is decided before the job begins and after it has ended", "[sync][membership]") {
  Conversation job(settings(1, 0));
  CHECK_FALSE(job.machine.decisions());
  (void)job.say(0, Join{.incarnation = 100, .job_text = ""});
  CHECK_FALSE(job.machine.decisions());  // it is being started
  (void)job.say(0, Ready{});
  CHECK(job.machine.decisions());
  (void)job.say(10, Done{.incarnation = 100});
  CHECK(job.machine.ended());
  CHECK_FALSE(job.machine.decisions());
}

TEST_CASE("a scheduler that comes back repeats what a process may not have heard", "[sync][membership]") {
  Conversation job = shrinking(2, 1);
  (void)job.say(100, StopRequested{"worker 0"});
  (void)job.say(110, Held{Conversation::worker(0), 1, 7});

  Conversation holding = returned(job, job.machine.decisions() ? settings(2, 1) : Settings(), 1'000);
  // An answer to Hold is not a decision, so both workers are asked again.
  CHECK(notices<Hold>(holding.say(1'010, StreamOpened{Conversation::worker(0)})).at(0).number == 1);
  CHECK(notices<Hold>(holding.say(1'010, StreamOpened{Conversation::worker(1)})).size() == 1);
  (void)holding.say(1'020, Held{Conversation::worker(0), 1, 7});
  const auto decided = notices<StopAfter>(holding.say(1'020, Held{Conversation::worker(1), 1, 8}));
  REQUIRE(decided.size() == 2);
  CHECK(decided[0].steps == 8);

  Conversation stopping = returned(holding, settings(2, 1), 2'000);
  const auto repeated = notices<StopAfter>(stopping.say(2'010, StreamOpened{Conversation::worker(1)}));
  REQUIRE(repeated.size() == 1);
  CHECK(repeated[0].steps == 8);
  (void)stopping.say(2'020,
                     Done{.incarnation = Conversation::worker(0), .failure = Code::kPreempted, .steps_begun = 8});
  (void)stopping.say(2'020,
                     Done{.incarnation = Conversation::worker(1), .failure = Code::kPreempted, .steps_begun = 8});

  Conversation finishing = returned(stopping, settings(2, 1), 3'000);
  CHECK(notices<Finish>(finishing.say(3'010, StreamOpened{Conversation::server(0)})).at(0).preempted);
  const auto end = all<End>(finishing.say(3'020, Done{.incarnation = Conversation::server(0)}));
  REQUIRE(end.size() == 1);
  CHECK(end[0].failure->message == "stopped after 8 steps");
}

TEST_CASE("a scheduler that comes back answers a barrier again, and an open one is entered again",
          "[sync][membership]") {
  Conversation job = training(settings(2, 0));
  (void)job.say(100, meeting(0, 1));
  CHECK(all<ReleaseBarrier>(job.say(100, meeting(1, 1))).size() == 1);
  (void)job.say(200, meeting(0, 2));

  Conversation next = returned(job, settings(2, 0), 1'000);
  CHECK(all<RepeatBarrier>(next.say(1'010, meeting(1, 1))).at(0).seq == 1);
  CHECK(all<ReleaseBarrier>(next.say(1'020, meeting(1, 2))).empty());  // worker 0 must come again
  CHECK(all<ReleaseBarrier>(next.say(1'030, meeting(0, 2))).size() == 1);
}

TEST_CASE("a scheduler that comes back gives every process the whole heartbeat timeout", "[sync][membership]") {
  Conversation job = shrinking(2, 1);
  (void)job.say(1'000, StreamClosed{Conversation::worker(1)});
  Settings its = settings(2, 1);
  its.on_worker_loss = OnWorkerLoss::kShrink;
  Conversation next = returned(job, its, 50'000);
  (void)next.say(51'000, StreamOpened{Conversation::worker(0)});
  (void)next.say(51'000, StreamOpened{Conversation::server(0)});
  CHECK(all<DeclareLost>(next.say(60'000, Tick{})).empty());
  const auto lost = all<DeclareLost>(next.say(60'100, Tick{}));
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].member == Member{Role::kWorker, 1});
}

TEST_CASE("a scheduler that comes back still waits for another worker, and knows who is missing",
          "[sync][membership]") {
  Conversation job = training(waiting());
  (void)job.say(100, ProcessEnded{{Role::kWorker, 1}, "was killed"});
  CHECK(job.machine.vacancies() == std::vector{Member{Role::kWorker, 1}});

  Conversation next = returned(job, waiting(), 80'000);
  CHECK(next.machine.vacancies() == std::vector{Member{Role::kWorker, 1}});
  CHECK(all<End>(next.say(139'900, Tick{})).empty());  // the rejoin timeout has begun again
  const auto asked = next.say(139'950, Join{.incarnation = kNewcomer, .want_rank = 1, .job_text = "", .is_late = true});
  CHECK(next.machine.vacancies().empty());
  CHECK(notices<View>(asked).at(0).number == 2);
}

TEST_CASE("a border at which a worker begins ends although the scheduler was killed before its end",
          "[sync][membership]") {
  Settings its = settings(1, 1);
  its.on_worker_loss = OnWorkerLoss::kShrink;
  its.max_workers = 2;
  Conversation job = training(its);
  (void)job.say(100, Join{.incarnation = kNewcomer, .job_text = "", .is_late = true});
  (void)job.say(110, Viewed{Conversation::server(0), 1});
  const BarrierEnter joins{.incarnation = kNewcomer, .name = "joining", .joins = true};
  (void)job.say(120, joins);
  (void)job.say(130, Held{Conversation::worker(0), 1, 5});
  BarrierEnter border = meeting(0, 1);
  border.border = 1;
  CHECK(all<DeclareJoined>(job.say(140, border)).size() == 1);  // the server does not know it yet

  Conversation next = returned(job, its, 1'000);
  CHECK(all<ReleaseBarrier>(next.say(1'010, joins)).empty());
  CHECK(all<ReleaseBarrier>(next.say(1'020, border)).empty());
  const auto released = all<ReleaseBarrier>(next.say(1'030, Viewed{Conversation::server(0), 2}));
  REQUIRE(released.size() == 1);
  CHECK(released[0].joined == std::vector<uint32_t>{1});

  Conversation after = returned(next, its, 2'000);
  CHECK(all<RepeatBarrier>(after.say(2'010, joins)).at(0).seq == 1);
}

TEST_CASE("texts that are not the decisions of such a machine are refused", "[sync][membership]") {
  const Conversation job = shrinking(2, 1);
  const Decisions decisions = job.machine.decisions().value();
  const auto refused = [&](const Decisions& texts, const Settings& its) {
    Machine machine(its);
    const Result<> outcome = machine.restore(texts, 0);
    return !outcome && outcome.error().code == Code::kData;
  };
  CHECK_FALSE(refused(decisions, settings(2, 1)));
  CHECK(refused({}, settings(2, 1)));
  CHECK(refused(decisions, settings(3, 1)));
  CHECK(refused(decisions, settings(2, 0)));
  for (const auto& [key, text] : decisions) {
    for (size_t size = 0; size < text.size(); size++) {
      Decisions cut = decisions;
      cut[key].resize(size);
      INFO(key << " cut after " << size);
      CHECK(refused(cut, settings(2, 1)));
    }
    Decisions longer = decisions;
    longer[key] += "1 ";
    CHECK(refused(longer, settings(2, 1)));
  }
}

}  // namespace dtrain::sync::membership
