// Workers that join the running job.
#include <algorithm>

#include "membership_conversation.h"

namespace dtrain::sync::membership {
namespace {

constexpr Incarnation kNew = 300;

Settings with_seats(uint32_t workers, uint32_t servers, uint32_t seats) {
  Settings its = settings(workers, servers);
  its.max_workers = seats;
  return its;
}

Join late(Incarnation incarnation = kNew) {
  return {.incarnation = incarnation, .job_text = "", .is_late = true};
}

BarrierEnter ready(Incarnation incarnation = kNew) {
  return {.incarnation = incarnation, .name = "joining", .joins = true};
}

// All workers of these ranks come to the border of the first Hold.
std::vector<Effect> come_to_border(Conversation& job, Millis now, const std::vector<uint32_t>& ranks, uint64_t steps) {
  std::vector<Effect> last;
  for (const uint32_t rank : ranks) (void)job.say(now, Held{Conversation::worker(rank), 1, steps});
  for (const uint32_t rank : ranks) {
    BarrierEnter enter = meeting(rank, 1);
    enter.border = 1;
    last = job.say(now, enter);
  }
  return last;
}

std::string refusal(const std::vector<Effect>& effects) {
  REQUIRE(all<Refuse>(effects).size() == 1);
  CHECK(effects.size() == 1);
  return all<Refuse>(effects)[0].why;
}

}  // namespace

TEST_CASE("a worker joins when the servers know it, and takes part from a border on", "[sync][membership]") {
  Conversation job = shrinking(with_seats(2, 2, 3));
  const auto asked = job.say(100, late());
  CHECK(all<Admit>(asked).empty());
  REQUIRE(notices<View>(asked).size() == 4);
  CHECK(notices<View>(asked)[0].workers[2] == Seat{.incarnation = kNew, .state = Seat::State::kJoining});
  CHECK(job.say(110, Viewed{Conversation::server(0), 1}).empty());
  const auto known = job.say(120, Viewed{Conversation::server(1), 1});
  REQUIRE(all<Admit>(known).size() == 1);
  CHECK(all<Admit>(known)[0].node.member == Member{Role::kWorker, 2});
  CHECK(notices<View>(job.say(130, StreamOpened{kNew})).size() == 1);
  CHECK(notices<Hold>(job.say(140, late())).empty());  // the answer was lost, so it asks again

  const auto hold = job.say(200, ready());
  CHECK(notices<Hold>(hold).size() == 2);  // only to the workers that take part
  const auto border = come_to_border(job, 300, {0, 1}, 40);
  REQUIRE(notices<View>(border).size() == 5);
  CHECK(notices<View>(border)[0].workers[2] == Seat{.incarnation = kNew, .begin = 40});
  CHECK(all<ReleaseBarrier>(border).empty());  // a server might still close rounds without it
  CHECK(all<DeclareJoined>(border).size() == 1);
  CHECK(job.say(310, Viewed{Conversation::server(0), 2}).empty());
  const auto released = all<ReleaseBarrier>(job.say(320, Viewed{Conversation::server(1), 2}));
  REQUIRE(released.size() == 1);
  CHECK(released[0].joined == std::vector<uint32_t>{2});
  CHECK(released[0].gone.empty());
  CHECK(all<RepeatBarrier>(job.say(330, ready())).at(0).seq == 1);  // the answer was lost

  // From now on, barriers wait for it.
  (void)job.say(400, meeting(0, 2));
  CHECK(all<ReleaseBarrier>(job.say(410, meeting(1, 2))).empty());
  BarrierEnter own = meeting(0, 2);
  own.incarnation = kNew;
  CHECK(all<ReleaseBarrier>(job.say(420, own)).size() == 1);
}

// The newcomer has not begun a step when the others are lost. Otherwise the next newcomer would begin with step 0, and
// with a bound the first one would wait for it.
TEST_CASE("a worker that has joined counts with the steps before its first one", "[sync][membership]") {
  Conversation job = shrinking(with_seats(1, 1, 3));
  (void)job.say(100, late());
  (void)job.say(110, Viewed{Conversation::server(0), 1});
  (void)job.say(120, StreamOpened{kNew});
  (void)job.say(130, ready());
  (void)come_to_border(job, 200, {0}, 40);
  REQUIRE(all<ReleaseBarrier>(job.say(210, Viewed{Conversation::server(0), 2})).size() == 1);
  (void)job.say(300, ProcessEnded{{Role::kWorker, 0}, "was killed"});
  (void)job.say(310, late(301));
  (void)job.say(320, Viewed{Conversation::server(0), 4});
  (void)job.say(330, StreamOpened{301});
  CHECK(notices<Hold>(job.say(340, ready(301))).size() == 1);
  const auto border = job.say(350, Held{kNew, 2, 0});
  REQUIRE(notices<StopAfter>(border).size() == 1);
  CHECK(notices<StopAfter>(border)[0].steps == 40);
}

TEST_CASE("a worker that is lost while it joins changes nothing for the others", "[sync][membership]") {
  Conversation job = shrinking(with_seats(2, 1, 3));
  (void)job.say(100, late());
  const auto withdrawn = job.say(110, Withdraw{kNew});
  CHECK(all<DeclareDropped>(withdrawn).size() == 1);
  CHECK(notices<StopJob>(withdrawn).empty());
  CHECK(notices<View>(withdrawn)[0].workers[2].state == Seat::State::kEmpty);
  (void)job.say(200, late(301));
  (void)job.say(210, Viewed{Conversation::server(0), 3});
  (void)job.say(220, StreamOpened{301});
  CHECK(notices<Hold>(job.say(230, ready(301))).size() == 2);
  const auto dropped = job.say(240, Done{.incarnation = 301, .failure = Code::kDevice, .message = "out of memory"});
  CHECK(all<DeclareDropped>(dropped).at(0).why == "it failed: out of memory");
  // The border is the others' alone.
  const auto released = all<ReleaseBarrier>(come_to_border(job, 300, {0, 1}, 7));
  REQUIRE(released.size() == 1);
  CHECK(released[0].joined.empty());
  // The seat is free for the next one.
  CHECK(notices<View>(job.say(400, late(302))).at(0).workers[2].incarnation == 302);
}

TEST_CASE("a worker that cannot join is refused with the reason", "[sync][membership]") {
  Conversation fixed = training(settings(2, 1));
  CHECK_THAT(refusal(fixed.say(10, late())), Catch::Contains("without --on-worker-loss wait or shrink"));
  Settings its = with_seats(2, 1, 3);
  its.job_text = "lr = 0.1\n";
  Settings own = its;
  own.on_worker_loss = OnWorkerLoss::kShrink;
  Conversation early(own);
  CHECK_THAT(refusal(early.say(0, late())), Catch::Contains("the job has not started yet"));

  Conversation job = shrinking(with_seats(2, 1, 3));
  Join join = late();
  join.records_train = 5;
  CHECK_THAT(refusal(job.say(10, join)), Catch::Contains("has 5 training records and 0 validation records, but the "));
  join = late();
  join.data_hash = 5;
  CHECK_THAT(refusal(job.say(10, join)), Catch::Contains("has other data"));
  join = late();
  join.job_text = "lr = 0.2\n";
  CHECK_THAT(refusal(job.say(10, join)), Catch::Contains("lr (job: not given, here: 0.2)"));
  join = late();
  join.want_rank = 1;
  CHECK(refusal(job.say(10, join)) == "worker 1 takes part in the job, or is about to");
  join.want_rank = 3;
  CHECK(refusal(job.say(10, join)) == "rank 3 does not exist: the job has seats for 3 workers (--max-workers)");
  (void)job.say(20, late());
  CHECK_THAT(refusal(job.say(30, late(301))), Catch::Contains("the job already has its 3 workers; --max-workers"));
  (void)job.say(40, StopRequested{"a signal"});
  CHECK(refusal(job.say(50, late(302))) == "the job is about to end");
}

namespace {

// A worker that was lost although it lives asks for a seat again.
Join again(Incarnation incarnation, Incarnation formerly, uint32_t rank) {
  Join join = late(incarnation);
  join.formerly = formerly;
  join.want_rank = rank;
  return join;
}

}  // namespace

TEST_CASE("a worker that was lost although it lives gets its seat again, or another one", "[sync][membership]") {
  Conversation job = shrinking(with_seats(3, 1, 4));
  const Incarnation old = Conversation::worker(1);
  const auto lost = job.say(100, GiveUp{{Role::kWorker, 1}, "it makes no step"});
  // It is told even if it had no stream when it was lost, and nothing of it counts.
  CHECK(notices<View>(lost).size() == 4);
  REQUIRE(notices<View>(job.say(200, StreamOpened{old})).size() == 1);
  CHECK(all<Reject>(job.say(210, meeting(1, 1))).empty());
  CHECK_FALSE(job.machine.member(old));
  CHECK(all<Reject>(job.say(210, StreamOpened{999})).at(0).code == Code::kDenied);

  SECTION("its own") {
    const auto asked = job.say(300, again(kNew, old, 1));
    CHECK(notices<View>(asked).at(0).workers[1] == Seat{.incarnation = kNew, .state = Seat::State::kJoining});
    CHECK(all<Admit>(job.say(310, Viewed{Conversation::server(0), 2})).at(0).node.member == Member{Role::kWorker, 1});
  }
  SECTION("another one, because somebody else has its own") {
    (void)job.say(300, late(301));
    CHECK(notices<View>(job.say(310, again(kNew, old, 1))).at(0).workers[3].incarnation == kNew);
  }
  SECTION("none, because there is none") {
    (void)job.say(300, late(301));
    (void)job.say(310, late(302));
    const auto refused = all<Refuse>(job.say(320, again(kNew, old, 1)));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].code == Code::kPeerLost);
    CHECK(refused[0].why == "other workers have taken its place and all other seats");
  }
  SECTION("none, because it was to leave") {
    (void)job.say(300, LeaveAsked{.rank = 2});
    (void)job.say(310, GiveUp{{Role::kWorker, 2}, "it makes no step"});
    CHECK(refusal(job.say(320, again(kNew, Conversation::worker(2), 2))) == "this worker was asked to leave");
  }
}

TEST_CASE("a worker that is lost three times within ten minutes gets no seat again", "[sync][membership]") {
  Settings its = with_seats(2, 0, 2);
  Conversation job = shrinking(its);
  const Millis pause = GENERATE(1'000, 300'000);
  Millis now = 1'000;
  Incarnation last = Conversation::worker(1);
  (void)job.say(now, GiveUp{{Role::kWorker, 1}, "it makes no step"});
  // It is lost once more while it joins, and once more after that.
  (void)job.say(now += pause, again(301, last, 1));
  CHECK(all<DeclareDropped>(job.say(now, GiveUp{{Role::kWorker, 1}, "it makes no step"})).size() == 1);
  CHECK(all<Refuse>(job.say(now, again(301, last, 1))).at(0).code == Code::kPeerLost);  // it repeats its request
  CHECK(all<Admit>(job.say(now += pause, again(302, 301, 1))).size() == 1);
  CHECK(all<DeclareDropped>(job.say(now, GiveUp{{Role::kWorker, 1}, "it makes no step"})).size() == 1);
  now += pause;
  if (pause == 1'000) {
    CHECK_THAT(
        refusal(job.say(now, again(303, 302, 1))),
        Catch::StartsWith("this worker has been lost 3 times within 10 minutes; look for the cause on its host"));
    CHECK(all<Admit>(job.say(now, late(304))).size() == 1);  // another process
  } else {
    CHECK(all<Admit>(job.say(now, again(303, 302, 1))).size() == 1);
  }
}

TEST_CASE("a job that stands still waits at a border for a worker in the place of a lost one", "[sync][membership]") {
  Settings its = settings(3, 1);
  its.on_worker_loss = OnWorkerLoss::kWait;
  its.stands_still = true;
  its.rejoin_timeout_ms = 5'000;
  Conversation job = training(its);
  const auto lost = job.say(100, ProcessEnded{{Role::kWorker, 0}, "ended"});
  CHECK(all<DeclareLost>(lost).at(0).continues);
  CHECK(notices<Hold>(lost).size() == 2);
  CHECK(all<ReleaseBarrier>(come_to_border(job, 200, {1, 2}, 9)).empty());
  for (const uint32_t rank : {1U, 2U}) (void)job.say(4'000, Heartbeat{Conversation::worker(rank)});
  (void)job.say(4'000, Heartbeat{Conversation::server(0)});

  SECTION("one comes in time, although it takes longer than the timeout to prepare itself") {
    (void)job.say(4'500, late());
    (void)job.say(4'510, Viewed{Conversation::server(0), 2});
    CHECK(notices<StopJob>(job.say(6'000, Tick{})).empty());
    CHECK(all<ReleaseBarrier>(job.say(6'100, ready())).empty());
    const auto released = all<ReleaseBarrier>(job.say(6'110, Viewed{Conversation::server(0), 3}));
    REQUIRE(released.size() == 1);
    CHECK(released[0].joined == std::vector<uint32_t>{0});
    CHECK(released[0].lost == std::vector<uint32_t>{0});
  }
  SECTION("nobody comes") {
    CHECK(notices<StopJob>(job.say(5'000, Tick{})).empty());
    const auto end = notices<StopJob>(job.say(5'100, Tick{}));
    REQUIRE_FALSE(end.empty());
    CHECK(end[0].code == Code::kPeerLost);
    CHECK(end[0].message ==
          "worker 0 was lost: its process ended; no other worker has taken its place within 5 s "
          "(--rejoin-timeout)");
  }
  SECTION("the job is asked to stop") {
    const auto asked = job.say(4'500, StopRequested{"a signal"});
    REQUIRE(all<ReleaseBarrier>(asked).size() == 1);
    CHECK(all<ReleaseBarrier>(asked)[0].lost == std::vector<uint32_t>{0});
    CHECK(notices<Hold>(asked).size() == 2);
  }
}

// The run has gone back to an earlier step after the workers had answered the Hold.
TEST_CASE("when training begins again, a Hold counts the steps again", "[sync][membership]") {
  Settings its = settings(3, 1);
  its.on_worker_loss = OnWorkerLoss::kWait;
  its.stands_still = true;
  Conversation job = training(its);
  const bool has_answered = GENERATE(false, true);
  (void)job.say(100, ProcessEnded{{Role::kWorker, 2}, "ended"});
  for (const uint32_t rank : {0U, 1U}) {
    if (rank == 0 || has_answered) (void)job.say(110, Held{Conversation::worker(rank), 1, 9});
  }
  const auto begin = [&](uint32_t rank) {
    return job.say(200, BarrierEnter{.incarnation = Conversation::worker(rank),
                                     .name = "the initial weights",
                                     .seq = 1,
                                     .content = "0 numbers",
                                     .begins_training = true});
  };
  CHECK(begin(0).empty());
  const auto begun = begin(1);
  REQUIRE(all<ReleaseBarrier>(begun).size() == 1);
  CHECK(all<ReleaseBarrier>(begun)[0].lost == std::vector<uint32_t>{2});
  REQUIRE(notices<Hold>(begun).size() == 2);
  CHECK(notices<Hold>(begun)[0].number == 2);
  CHECK(job.say(210, Held{Conversation::worker(1), 1, 9}).empty());  // a late answer
  (void)job.say(220, Held{Conversation::worker(0), 2, 4});
  const auto last = notices<StopAfter>(job.say(230, Held{Conversation::worker(1), 2, 5}));
  REQUIRE(last.size() == 2);
  CHECK(last[0].number == 2);
  CHECK(last[0].steps == 5);
  CHECK(last[0].meets);
}

TEST_CASE("a worker that has left is not waited for", "[sync][membership]") {
  Settings its = settings(3, 1);
  its.on_worker_loss = OnWorkerLoss::kWait;
  its.stands_still = true;
  Conversation job = training(its);
  (void)job.say(100, LeaveAsked{.rank = 1});
  const auto left = job.say(200, Done{.incarnation = Conversation::worker(1), .has_left = true});
  CHECK(all<DeclareLeft>(left).size() == 1);
  CHECK(notices<Hold>(left).empty());
}

TEST_CASE("the report that a process has ended does not concern one that was started elsewhere", "[sync][membership]") {
  Conversation job = shrinking(with_seats(2, 1, 2));
  (void)job.say(100, GiveUp{{Role::kWorker, 1}, "it makes no step"});
  (void)job.say(200, late());
  (void)job.say(210, Viewed{Conversation::server(0), 2});
  // The launcher's own worker, which was suspended, ends when it learns that it is lost.
  CHECK(job.say(300, ProcessEnded{{Role::kWorker, 1}, "ended"}).empty());
  Join join = late(301);
  join.is_launched = true;
  (void)job.say(400, Withdraw{kNew});
  CHECK(all<DeclareDropped>(job.say(410, Done{.incarnation = kNew})).size() == 1);
  (void)job.say(500, join);
  CHECK(all<DeclareDropped>(job.say(510, ProcessEnded{{Role::kWorker, 1}, "ended"})).size() == 1);
}

TEST_CASE("a worker that still prepares itself at the end of the job is told so", "[sync][membership]") {
  Conversation job = shrinking(with_seats(2, 1, 3));
  (void)job.say(100, late());
  (void)job.say(110, Viewed{Conversation::server(0), 1});
  (void)job.say(200, Done{.incarnation = Conversation::worker(0)});
  const auto over = job.say(210, Done{.incarnation = Conversation::worker(1)});
  REQUIRE(all<Reject>(over).size() == 1);
  CHECK(all<Reject>(over)[0].why == "the job has ended before this worker could take part");
  CHECK(notices<Finish>(over).size() == 1);
}

}  // namespace dtrain::sync::membership
