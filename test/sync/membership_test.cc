#include "sync/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "membership_conversation.h"
#include "sync/differing_keys.h"

namespace dtrain::sync::membership {
TEST_CASE("keys that differ are listed with both values, and auto agrees with anything", "[sync][membership]") {
  const std::string job = "batch_size = 64\nlr = 0.1\nseed = 7\nnetwork = lenet\n";
  CHECK(differing_keys(job, job).empty());
  CHECK(differing_keys(job, "batch_size = 64\n  lr=0.1\nseed = auto\nnetwork = lenet").empty());
  CHECK(differing_keys(job, "batch_size = 32\nlr = 0.1\nseed = 7\nmomentum = 0.9\n") ==
        std::vector<std::string>{"batch_size (job: 64, here: 32)", "network (job: lenet, here: not given)",
                                 "momentum (job: not given, here: 0.9)"});
}

TEST_CASE("explicit ranks are kept and the others fill the gaps in order of arrival", "[sync][membership]") {
  Conversation c(settings(3, 1));
  CHECK(c.say(1, Join{.incarnation = 11, .job_text = ""}).empty());
  CHECK(c.say(2, Join{.incarnation = 5, .job_text = ""}).empty());
  CHECK(c.say(3, Join{.incarnation = 9, .want_rank = 0, .job_text = ""}).empty());
  const auto start = all<Start>(c.say(4, Join{.incarnation = 7, .role = Role::kServer, .job_text = ""}));
  REQUIRE(start.size() == 1);
  REQUIRE(start[0].nodes.size() == 4);
  const std::vector<Incarnation> expected = {9, 11, 5, 7};
  for (size_t i = 0; i < 4; i++) CHECK(start[0].nodes[i].incarnation == expected[i]);
  CHECK(all<Admit>(c.say(5, Ready{})).size() == 4);
  // Its answer was lost on the way, so it gets it again.
  CHECK(all<Admit>(c.say(6, Join{.incarnation = 5, .job_text = ""})).size() == 1);
}

TEST_CASE("a join that does not fit is refused with the cause, and the job continues", "[sync][membership]") {
  Settings with_text = settings(2, 1);
  with_text.job_text = "lr = 0.1\n";
  Conversation c(with_text);
  const auto why = [&](const Join& join) {
    const auto refused = all<Refuse>(c.say(1, join));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].code == Code::kUsage);
    return refused[0].why;
  };
  const std::string text = "lr = 0.1";
  CHECK(c.say(1, Join{.incarnation = 1, .want_rank = 1, .job_text = text}).empty());
  CHECK_THAT(why({.incarnation = 2, .want_rank = 1, .job_text = text}),
             Catch::Contains("another process has already joined"));
  CHECK_THAT(why({.incarnation = 2, .want_rank = 2, .job_text = text}), Catch::Contains("the job has 2 workers"));
  CHECK_THAT(why({.incarnation = 2, .job_text = "lr = 0.2"}), Catch::Contains("lr (job: 0.1, here: 0.2)"));
  CHECK(c.say(1, Join{.incarnation = 3, .role = Role::kServer, .job_text = text}).empty());
  CHECK_THAT(why({.incarnation = 4, .role = Role::kServer, .job_text = text}),
             Catch::Contains("already has its 1 servers"));
  CHECK(all<Start>(c.say(2, Join{.incarnation = 5, .job_text = text})).size() == 1);
}

TEST_CASE("a worker with other numbers of records than worker 0 is refused, and both are named", "[sync][membership]") {
  Conversation c(settings(2, 0));
  (void)c.say(1, Join{.incarnation = 1, .job_text = "", .records_train = 50, .records_val = 10});
  const auto out =
      c.say(2, Join{.incarnation = 2, .want_rank = 0, .job_text = "", .records_train = 60, .records_val = 10});
  const auto refused = all<Refuse>(out);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].incarnation == 1);
  CHECK_THAT(refused[0].why, Catch::Contains("worker 1 has 50") && Catch::Contains("worker 0 has 60"));
  CHECK(all<Start>(out).empty());
}

TEST_CASE("at the start timeout the missing processes are named and the waiting ones refused", "[sync][membership]") {
  Conversation c(settings(3, 2));
  (void)c.say(0, Join{.incarnation = 1, .want_rank = 2, .job_text = ""});
  (void)c.say(0, Join{.incarnation = 2, .job_text = ""});
  (void)c.say(0, Join{.incarnation = 3, .role = Role::kServer, .job_text = ""});
  (void)c.say(10, Withdraw{3});
  const auto logged = all<LogMissing>(c.say(30'000, Tick{}));
  REQUIRE(logged.size() == 1);
  CHECK(to_text(logged[0].missing) == "worker 1, server 0, server 1");
  CHECK(all<LogMissing>(c.say(60'000, Tick{})).empty());
  CHECK(all<LogMissing>(c.say(90'000, Tick{})).size() == 1);
  const auto out = c.say(300'000, Tick{});
  CHECK(all<Refuse>(out).size() == 2);
  const auto end = all<End>(out);
  REQUIRE(end.size() == 1);
  CHECK(end[0].failure->code == Code::kStartup);
  CHECK(end[0].failure->message == "worker 1, server 0, server 1 did not join within 300 s");
  CHECK(c.machine.ended());
}

TEST_CASE("a barrier opens when all live workers are in, counts each rank once, and logs the missing ones",
          "[sync][membership]") {
  Conversation c(settings(3, 1));
  c.start(3, 1);
  const auto enter = [&](Millis now, uint32_t rank, uint64_t seq) {
    return c.say(now, BarrierEnter{Conversation::worker(rank), "epoch", seq, "2 numbers"});
  };
  CHECK(enter(1, 0, 0).empty());
  CHECK(enter(2, 0, 0).empty());  // sent twice: still one rank
  CHECK(enter(3, 1, 0).empty());
  for (uint32_t i = 0; i < 3; i++) (void)c.say(30'000, Heartbeat{Conversation::worker(i)});
  (void)c.say(30'000, Heartbeat{Conversation::server(0)});
  const auto logged = all<LogMissing>(c.say(30'001, Tick{}));
  REQUIRE(logged.size() == 1);
  CHECK(logged[0].what == "barrier 'epoch'");
  CHECK(to_text(logged[0].missing) == "worker 2");
  CHECK(all<ReleaseBarrier>(enter(30'002, 2, 0)).size() == 1);
  CHECK(all<RepeatBarrier>(enter(30'003, 1, 0)).size() == 1);
  // The next barrier: a worker that is done does not count.
  CHECK(enter(30'004, 0, 1).empty());
  CHECK(enter(30'005, 1, 1).empty());
  CHECK(all<ReleaseBarrier>(c.say(30'006, Done{Conversation::worker(2), {}, "", 5})).size() == 1);
}

TEST_CASE("workers at different barriers end the job instead of waiting forever", "[sync][membership]") {
  Conversation c(settings(2, 0));
  c.start(2, 0);
  (void)c.say(1, BarrierEnter{Conversation::worker(0), "epoch 1", 0, "0 numbers"});
  const auto out = c.say(2, BarrierEnter{Conversation::worker(1), "epoch 2", 0, "0 numbers"});
  REQUIRE(notices<StopJob>(out).size() == 2);
  CHECK_THAT(notices<StopJob>(out)[0].message, Catch::Contains("epoch 1") && Catch::Contains("epoch 2"));
}

TEST_CASE("workers that bring different contents to a barrier end the job", "[sync][membership]") {
  Conversation c(settings(2, 0));
  c.start(2, 0);
  (void)c.say(1, BarrierEnter{Conversation::worker(0), "epoch", 0, "a message 'speed'", 9});
  const auto out = c.say(2, BarrierEnter{Conversation::worker(1), "epoch", 0, "2 numbers"});
  REQUIRE(notices<StopJob>(out).size() == 2);
  CHECK(notices<StopJob>(out)[0].message ==
        "worker 1 enters barrier 'epoch' with 2 numbers, but others entered 'epoch' with a message 'speed'");
}

TEST_CASE("1,000 workers gather, up to a limit of bytes for all together", "[sync][membership]") {
  constexpr uint32_t kWorkers = 1000;
  Settings limited = settings(kWorkers, 0);
  limited.barrier_bytes_max = uint64_t{kWorkers} * 100;
  Conversation c(limited);
  c.start(kWorkers, 0);
  const auto enter = [&](uint32_t rank, uint64_t seq, uint64_t bytes) {
    return c.say(1, BarrierEnter{Conversation::worker(rank), "all", seq, "a message 'address'", bytes});
  };
  for (uint32_t rank = 0; rank + 1 < kWorkers; rank++) {
    CHECK(enter(rank, 0, 100).empty());
    CHECK(enter(rank, 0, 100).empty());  // a repeated call does not count twice
  }
  CHECK(all<ReleaseBarrier>(enter(kWorkers - 1, 0, 100)).size() == 1);
  for (uint32_t rank = 0; rank + 1 < kWorkers; rank++) CHECK(enter(rank, 1, 100).empty());
  const auto stop = notices<StopJob>(enter(kWorkers - 1, 1, 101));
  REQUIRE(stop.size() == kWorkers);
  CHECK(stop[0].code == Code::kUsage);
  CHECK(stop[0].message ==
        "barrier 'all': the messages of 1000 workers have 100001 bytes in total, more than the limit of 100000: use "
        "fewer workers");
}

TEST_CASE("a silent process is lost after the timeout, one with a closed stream after the reconnect time",
          "[sync][membership]") {
  Conversation c(settings(2, 1));
  c.start(2, 1);
  SECTION("silent") {
    (void)c.say(10'000, Heartbeat{Conversation::worker(0)});
    (void)c.say(10'000, Heartbeat{Conversation::server(0)});
    CHECK(all<DeclareLost>(c.say(10'000, Tick{})).empty());
    const auto out = c.say(10'001, Tick{});
    REQUIRE(all<DeclareLost>(out).size() == 1);
    REQUIRE(notices<StopJob>(out).size() == 3);  // the silent one is told too, in case it can hear
    CHECK(notices<StopJob>(out)[0].code == Code::kPeerLost);
    CHECK_THAT(notices<StopJob>(out)[0].message, Catch::Contains("worker 1 was lost: silent for 10001 ms"));
    // The survivors sign off, which ends the scheduler's work.
    (void)c.say(10'100, Done{Conversation::worker(0), Code::kPeerLost, "", 3});
    const auto last = c.say(10'200, Done{Conversation::server(0), Code::kPeerLost, "", 0});
    REQUIRE(all<End>(last).size() == 1);
    CHECK(all<End>(last)[0].failure->code == Code::kPeerLost);
  }
  SECTION("closed") {
    (void)c.say(100, StreamClosed{Conversation::server(0)});
    CHECK(c.say(1'099, Tick{}).empty());
    CHECK_THAT(notices<StopJob>(c.say(1'100, Tick{}))[0].message, Catch::Contains("server 0 was lost"));
    CHECK(all<End>(c.say(2'600, Tick{})).size() == 1);  // nobody signs off: the scheduler does not wait forever
  }
  SECTION("closed and back in time") {
    (void)c.say(100, StreamClosed{Conversation::server(0)});
    (void)c.say(1'000, StreamOpened{Conversation::server(0)});
    CHECK(c.say(2'000, Tick{}).empty());
  }
}

TEST_CASE("time in which the scheduler slept is no silence of a process, and a closed stream may be reopened",
          "[sync][membership]") {
  Conversation job({.workers = 2, .servers = 1, .job_text = "", .heartbeat_timeout_ms = 10'000, .reconnect_ms = 1'000});
  job.start(2, 1);
  (void)job.say(1'000, StreamClosed{Conversation::worker(1)});
  CHECK(job.say(60'000, Slept{58'900}).empty());
  CHECK(job.say(60'000, Tick{}).empty());
  CHECK(job.say(60'900, Tick{}).empty());
  (void)job.say(60'950, StreamOpened{Conversation::worker(1)});
  (void)job.say(61'000, Heartbeat{Conversation::worker(0)});
  CHECK(job.say(68'900, Tick{}).empty());
  // The server stays silent: it is lost after ten seconds in which the scheduler ran.
  const std::vector<Effect> effects = job.say(68'901, Tick{});
  REQUIRE(all<DeclareLost>(effects).size() == 1);
  CHECK(all<DeclareLost>(effects)[0].member == Member{Role::kServer, 0});
}

TEST_CASE("a process that is given up ends the job, and is told like the others", "[sync][membership]") {
  Conversation job(settings(2, 1));
  job.start(2, 1);
  const std::vector<Effect> effects = job.say(10, GiveUp{{Role::kServer, 0}, "server 0 is stuck"});
  REQUIRE(all<DeclareLost>(effects).size() == 1);
  CHECK(all<DeclareLost>(effects)[0].member == Member{Role::kServer, 0});
  REQUIRE(notices<StopJob>(effects).size() == 3);
  CHECK(notices<StopJob>(effects)[0].code == Code::kPeerLost);
  CHECK(notices<StopJob>(effects)[0].message == "server 0 counts as lost (--stall-timeout): server 0 is stuck");
  CHECK(job.say(11, GiveUp{{Role::kWorker, 7}, "there is no such worker"}).empty());
}

namespace {

// What a worker reports about lost connections, by server. They were lost at the time 1000.
LinksLost links_lost(Millis now_ms, uint32_t worker, const std::vector<uint32_t>& servers) {
  LinksLost event{Conversation::worker(worker), {}};
  for (const uint32_t server : servers) event.links.push_back({server, now_ms - 1'000, "refused"});
  return event;
}
void all_are_heard(Conversation& c, Millis now_ms, uint32_t workers, uint32_t servers) {
  for (uint32_t i = 0; i < workers; i++) (void)c.say(now_ms, Heartbeat{Conversation::worker(i)});
  for (uint32_t i = 0; i < servers; i++) (void)c.say(now_ms, Heartbeat{Conversation::server(i)});
}

}  // namespace

TEST_CASE("a worker that cannot open its connection to a server again is lost after the timeout",
          "[sync][membership]") {
  Conversation c(settings(2, 2));
  c.start(2, 2);
  CHECK(c.say(1'500, links_lost(1'500, 1, {1})).empty());
  all_are_heard(c, 10'000, 2, 2);
  CHECK(c.say(10'999, Tick{}).empty());
  const auto out = c.say(11'000, Tick{});
  REQUIRE(all<DeclareLost>(out).size() == 1);
  CHECK(all<DeclareLost>(out)[0].member == Member{Role::kWorker, 1});
  REQUIRE(notices<StopJob>(out).size() == 4);  // the lost worker is told too
  CHECK(notices<StopJob>(out)[0].code == Code::kPeerLost);
  CHECK(notices<StopJob>(out)[0].message ==
        "worker 1 was lost: it has lost its connection to server 1 and could not open another one for 10.0 s "
        "(refused), although the scheduler reaches both sides; check the network and firewalls between these hosts");
}

TEST_CASE("a server is lost if more than half of the live workers have lost it", "[sync][membership]") {
  Conversation c(settings(5, 2));
  c.start(5, 2);
  (void)c.say(1'500, links_lost(1'500, 0, {0}));
  (void)c.say(1'600, links_lost(1'600, 3, {0}));
  SECTION("two of five are not enough") {
    all_are_heard(c, 10'000, 5, 2);
    CHECK(all<DeclareLost>(c.say(11'000, Tick{}))[0].member.role == Role::kWorker);
  }
  SECTION("two of three are, because workers that are done do not count") {
    for (const uint32_t i : {1, 2}) (void)c.say(2'000, Done{Conversation::worker(i), {}, "", 5});
    all_are_heard(c, 10'000, 5, 2);
    const auto out = c.say(11'000, Tick{});
    CHECK(all<DeclareLost>(out)[0].member == Member{Role::kServer, 0});
    CHECK_THAT(notices<StopJob>(out)[0].message,
               Catch::Contains("server 0 was lost: 2 of 3 workers (worker 0, worker 3) have lost their connections"));
  }
}

TEST_CASE("a connection that is open again, or whose end is gone, makes nobody lost", "[sync][membership]") {
  Conversation c(settings(2, 2));
  c.start(2, 2);
  (void)c.say(1'500, links_lost(1'500, 1, {0, 1}));
  SECTION("open again") {
    (void)c.say(9'000, links_lost(9'000, 1, {}));
  }
  SECTION("the worker is done") {
    (void)c.say(9'000, Done{Conversation::worker(1), {}, "", 5});
  }
  SECTION("the scheduler slept") {
    (void)c.say(60'000, Slept{58'000});
    all_are_heard(c, 60'000, 2, 2);
    CHECK(c.say(60'500, Tick{}).empty());
    return;
  }
  SECTION("servers that do not exist") {
    (void)c.say(9'000, links_lost(9'000, 1, {2, 7}));
  }
  all_are_heard(c, 10'000, 2, 2);
  CHECK(c.say(11'500, Tick{}).empty());
}

TEST_CASE("of several cut connections the one that was lost first counts", "[sync][membership]") {
  Conversation c(settings(4, 2));
  c.start(4, 2);
  (void)c.say(1'500, LinksLost{Conversation::worker(1), {{0, 100, "second"}, {1, 200, "first"}}});
  (void)c.say(1'500, LinksLost{Conversation::worker(3), {{0, 50, "third"}}});
  all_are_heard(c, 11'000, 4, 2);
  const auto out = c.say(11'600, Tick{});
  CHECK(all<DeclareLost>(out)[0].member == Member{Role::kWorker, 1});
  CHECK_THAT(notices<StopJob>(out)[0].message, Catch::Contains("server 1") && Catch::Contains("(first)"));
}

TEST_CASE("a process whose end its launcher reports is lost at once, unless it has said goodbye",
          "[sync][membership]") {
  Conversation job(settings(3, 1));
  job.start(3, 1);
  (void)job.say(5, StreamClosed{Conversation::worker(2)});
  (void)job.say(5, Done{.incarnation = Conversation::worker(0), .failure = {}, .message = ""});
  CHECK(job.say(6, ProcessEnded{{Role::kWorker, 0}, "ended with code 0 (ok)"}).empty());
  const std::vector<Effect> effects = job.say(6, ProcessEnded{{Role::kWorker, 2}, "was killed by signal 9 (Killed)"});
  REQUIRE(all<DeclareLost>(effects).size() == 1);
  CHECK(all<DeclareLost>(effects)[0].member == Member{Role::kWorker, 2});
  // It is told too: its launcher may have lost no more than the way to it.
  REQUIRE(notices<StopJob>(effects).size() == 3);
  CHECK(notices<StopJob>(effects)[0].message == "worker 2 was lost: its process was killed by signal 9 (Killed)");
  // The scheduler does not wait for the streams of processes that it knows to have ended.
  (void)job.say(7, ProcessEnded{{Role::kWorker, 1}, "ended with code 5 (peer lost)"});
  CHECK(all<End>(job.say(7, ProcessEnded{{Role::kServer, 0}, "ended with code 5 (peer lost)"})).size() == 1);
}

TEST_CASE("the end of a process that has no rank yet is left to the start timeout", "[sync][membership]") {
  Conversation job(settings(2, 0));
  (void)job.say(0, Join{.incarnation = Conversation::worker(0), .want_rank = 0, .job_text = ""});
  CHECK(job.say(1, ProcessEnded{{Role::kWorker, 0}, "was killed by signal 9 (Killed)"}).empty());
}

TEST_CASE("a scheduler that is always late still notices a silent process", "[sync][membership]") {
  Conversation job({.workers = 2, .servers = 1, .job_text = "", .heartbeat_timeout_ms = 10'000, .reconnect_ms = 1'000});
  job.start(2, 1);
  std::vector<Effect> effects;
  Millis now = 0;
  while (all<DeclareLost>(effects).empty() && now < 100'000) {
    now += 500;
    CHECK(job.say(now, Slept{400}).empty());
    for (const int worker : {0, 1}) (void)job.say(now, Heartbeat{Conversation::worker(worker)});
    effects = job.say(now, Tick{});
  }
  REQUIRE(all<DeclareLost>(effects).size() == 1);
  CHECK(all<DeclareLost>(effects)[0].member == Member{Role::kServer, 0});
}

TEST_CASE("the start timeout does not count while the scheduler sleeps", "[sync][membership]") {
  Conversation job({.workers = 1, .job_text = "", .start_timeout_ms = 5'000});
  (void)job.say(1'000, Tick{});
  (void)job.say(20'000, Slept{18'900});
  CHECK(all<End>(job.say(20'000, Tick{})).empty());
  CHECK(all<End>(job.say(23'899, Tick{})).empty());
  CHECK(all<End>(job.say(23'900, Tick{})).size() == 1);
}

TEST_CASE("workers stop after the largest number of begun steps, and a reconnected worker is told again",
          "[sync][membership]") {
  Conversation c(settings(3, 1));
  c.start(3, 1);
  CHECK(notices<Hold>(c.say(10, StopRequested{"worker 1"})).size() == 3);
  CHECK(c.say(11, StopRequested{"the scheduler"}).empty());
  CHECK(c.say(12, Held{Conversation::worker(0), 1, 7}).empty());
  (void)c.say(13, StreamClosed{Conversation::worker(1)});
  CHECK(notices<Hold>(c.say(14, StreamOpened{Conversation::worker(1)})).size() == 1);
  CHECK(c.say(15, Held{Conversation::worker(1), 1, 8}).empty());
  const auto out = c.say(16, Held{Conversation::worker(2), 1, 7});
  REQUIRE(notices<StopAfter>(out).size() == 3);
  CHECK(notices<StopAfter>(out)[0].steps == 8);
  CHECK(notices<StopAfter>(c.say(17, StreamOpened{Conversation::worker(2)})).size() == 1);
  for (uint32_t i = 0; i < 3; i++) {
    const auto end = c.say(20, Done{Conversation::worker(i), Code::kPreempted, "", 8});
    const auto finish = notices<Finish>(end);
    CHECK(finish.size() == (i == 2 ? 1 : 0));
    if (!finish.empty()) CHECK(finish[0].preempted);
  }
  const auto end = all<End>(c.say(21, Done{Conversation::server(0), Code::kPreempted, "", 0}));
  REQUIRE(end.size() == 1);
  CHECK(end[0].failure->code == Code::kPreempted);
}

TEST_CASE("each stop set stops after the largest number of steps that its workers have begun", "[sync][membership]") {
  Conversation c(settings(4, 0));
  c.start(4, 0, {0, 1, 0, 2});
  (void)c.say(10, StopRequested{"worker 1"});
  (void)c.say(11, Held{Conversation::worker(0), 1, 7});
  (void)c.say(12, Held{Conversation::worker(1), 1, 30});
  (void)c.say(13, Held{Conversation::worker(3), 1, 2});
  const auto out = c.say(14, Held{Conversation::worker(2), 1, 8});
  const std::vector<uint64_t> expected = {8, 30, 8, 2};
  const std::vector<Tell> told = all<Tell>(out);
  REQUIRE(told.size() == 4);
  for (uint32_t i = 0; i < 4; i++) {
    CHECK(told[i].to == Conversation::worker(i));
    CHECK(std::get<StopAfter>(told[i].notice).steps == expected[i]);
    // A process that was disconnected gets the same notice again.
    const auto again = notices<StopAfter>(c.say(15, StreamOpened{Conversation::worker(i)}));
    REQUIRE(again.size() == 1);
    CHECK(again[0].steps == expected[i]);
  }
  for (uint32_t i = 0; i < 4; i++) {
    const auto end = all<End>(c.say(20, Done{Conversation::worker(i), Code::kPreempted, "", expected[i]}));
    REQUIRE(end.size() == (i == 3 ? 1 : 0));
    if (!end.empty()) CHECK(end[0].failure->message == "stopped after 2 to 30 steps");
  }
}

TEST_CASE("a finished worker counts in its stop set", "[sync][membership]") {
  Conversation c(settings(3, 0));
  c.start(3, 0, {0, 0, 1});
  (void)c.say(1, Done{Conversation::worker(1), {}, "", 9});
  (void)c.say(10, StopRequested{"worker 0"});
  (void)c.say(11, Held{Conversation::worker(0), 1, 8});
  const auto told = notices<StopAfter>(c.say(12, Held{Conversation::worker(2), 1, 5}));
  REQUIRE(told.size() == 2);
  CHECK(told[0].steps == 9);
  CHECK(told[1].steps == 5);
}

TEST_CASE("workers stop by the stop sets of the last meeting", "[sync][membership]") {
  Conversation c(settings(3, 0));
  c.start(3, 0, {0, 0, 1});
  const auto meet = [&](uint32_t rank, std::vector<uint32_t> sets) {
    return c.say(1, BarrierEnter{Conversation::worker(rank), "groups", 0, "0 numbers", 0, std::move(sets)});
  };
  (void)meet(0, {0, 1, 1});
  (void)meet(1, {0, 1, 1});
  CHECK(all<ReleaseBarrier>(meet(2, {0, 1, 1})).size() == 1);
  (void)c.say(10, StopRequested{"worker 0"});
  (void)c.say(11, Held{Conversation::worker(0), 1, 9});
  (void)c.say(12, Held{Conversation::worker(1), 1, 5});
  const auto told = notices<StopAfter>(c.say(13, Held{Conversation::worker(2), 1, 6}));
  REQUIRE(told.size() == 3);
  CHECK(told[0].steps == 9);
  CHECK(told[1].steps == 6);
  CHECK(told[2].steps == 6);
}

TEST_CASE("stop sets that differ between workers or do not fit the job end the job", "[sync][membership]") {
  const std::vector<std::pair<std::vector<uint32_t>, std::string>> wrong = {
      {{0, 0}, "differ from those of the other workers"},
      {{}, "differ from those of the other workers"},
      {{0, 1, 1}, "stop sets for 3 workers, but the job has 2"}};
  for (const auto& [sets, why] : wrong) {
    Conversation c(settings(2, 0));
    c.start(2, 0, {0, 0});
    (void)c.say(1, BarrierEnter{Conversation::worker(0), "groups", 0, "0 numbers", 0, {0, 1}});
    const auto stop =
        notices<StopJob>(c.say(2, BarrierEnter{Conversation::worker(1), "groups", 0, "0 numbers", 0, sets}));
    REQUIRE(stop.size() == 2);
    CHECK_THAT(stop[0].message, Catch::Contains(why));
  }
}

TEST_CASE("a worker's own failure ends the job with its code and text", "[sync][membership]") {
  Conversation c(settings(2, 1));
  c.start(2, 1);
  const auto out = c.say(5, Done{Conversation::worker(1), Code::kData, "record 7 of train.rec is broken", 3});
  REQUIRE(notices<StopJob>(out).size() == 2);
  CHECK(notices<StopJob>(out)[0].code == Code::kData);
  CHECK(notices<StopJob>(out)[0].message == "worker 1 failed: record 7 of train.rec is broken");
}

TEST_CASE("while a worker lacks an index all are members, and no start timeout runs", "[sync][membership]") {
  Settings short_limit = settings(2, 1);
  short_limit.start_timeout_ms = 1'000;
  Conversation c(short_limit);
  (void)c.say(1, Join{.incarnation = 100, .want_rank = 0, .job_text = "", .lacks_index = true});
  (void)c.say(1, Join{.incarnation = 101, .want_rank = 1, .job_text = "", .records_train = 50});
  const auto out = c.say(2, Join{.incarnation = 200, .role = Role::kServer, .want_rank = 0, .job_text = ""});
  CHECK(all<Prepare>(out).size() == 3);
  CHECK(all<Start>(out).empty());
  CHECK(c.machine.started());
  for (const Incarnation one : {100, 101, 200}) (void)c.say(3, StreamOpened{one});
  // Its answer was lost on the way: it gets it again.
  CHECK(all<Prepare>(c.say(4, Join{.incarnation = 101, .want_rank = 1, .job_text = ""})).size() == 1);
  for (Millis now = 500; now <= 60'000; now += 500) {
    for (const Incarnation one : {100, 101, 200}) (void)c.say(now, Heartbeat{one});
    REQUIRE(c.say(now, Tick{}).empty());
  }
  // They agree on the indexes.
  CHECK(all<ReleaseBarrier>(c.say(60'001, BarrierEnter{101, "index", 0, "1 numbers"})).empty());
  CHECK(all<ReleaseBarrier>(c.say(60'002, BarrierEnter{100, "index", 0, "1 numbers"})).size() == 1);
  const auto prepared = [&](Incarnation one, Role role, uint64_t records) {
    return c.say(60'003, Join{.incarnation = one,
                              .role = role,
                              .job_text = "",
                              .records_train = records,
                              .records_val = 0,
                              .lacks_index = false,
                              .prepared = true});
  };
  CHECK(prepared(200, Role::kServer, 0).empty());
  CHECK(prepared(100, Role::kWorker, 50).empty());
  const auto start = all<Start>(prepared(101, Role::kWorker, 50));
  REQUIRE(start.size() == 1);
  CHECK(start[0].records_train == 50);
  CHECK(all<Admit>(c.say(60'004, Ready{})).size() == 3);
  CHECK(all<Admit>(prepared(101, Role::kWorker, 50)).size() == 1);  // again: its answer was lost
}

TEST_CASE("a failure before all are prepared ends the job for all", "[sync][membership]") {
  const auto prepared = [](Incarnation one, uint64_t records) {
    return Join{.incarnation = one, .job_text = "", .records_train = records, .prepared = true};
  };
  // What the survivors are told.
  const auto stopped_by = [](const std::vector<Event>& events, Millis silence_ms = 0) {
    Conversation c(settings(2, 0));
    (void)c.say(1, Join{.incarnation = 100, .want_rank = 0, .job_text = "", .lacks_index = true});
    (void)c.say(1, Join{.incarnation = 101, .want_rank = 1, .job_text = "", .lacks_index = true});
    for (const Incarnation one : {100, 101}) (void)c.say(2, StreamOpened{one});
    std::vector<StopJob> stops;
    for (const Event& event : events) stops = notices<StopJob>(c.say(3 + silence_ms, event));
    REQUIRE_FALSE(stops.empty());
    return fmt::format("{}: {}", code_name(stops[0].code), stops[0].message);
  };
  CHECK_THAT(stopped_by({prepared(100, 60), prepared(101, 50)}),
             Catch::Contains("worker 1 has 50") && Catch::Contains("worker 0 has 60"));
  CHECK_THAT(stopped_by({Done{100, Code::kData, "train.rec: no record begins here", 0}}),
             Catch::Contains("worker 0 failed: train.rec"));
  CHECK_THAT(stopped_by({Done{101, std::nullopt, "", 0}}),
             Catch::Contains("worker 1 ended before the job had started"));
  CHECK_THAT(stopped_by({StopRequested{"worker 1"}}), Catch::Contains("worker 1 was asked to stop before"));
  CHECK_THAT(stopped_by({Heartbeat{101}, Tick{}}, 20'000), Catch::Contains("worker 0 was lost: silent for"));
}

TEST_CASE("a job that may shrink continues without a lost worker, and all processes hear of it", "[sync][membership]") {
  Conversation job = shrinking(3, 1);
  const auto lost = job.say(500, ProcessEnded{{Role::kWorker, 1}, "was killed by signal 9 (Killed)"});
  REQUIRE(all<DeclareLost>(lost).size() == 1);
  CHECK(all<DeclareLost>(lost)[0].continues);
  CHECK(all<DeclareLost>(lost)[0].why == "its process was killed by signal 9 (Killed)");
  CHECK(notices<StopJob>(lost).empty());
  const auto views = notices<View>(lost);
  REQUIRE(views.size() == 4);  // the lost process is told too, because it may still be running
  CHECK(views[0].number == 1);
  CHECK(live_seats(views[0]) == std::vector<bool>{true, false, true});
  CHECK(views[0].workers[1].incarnation == Conversation::worker(1));

  // A stream that is opened later gets the view, also that of the lost process, which no longer belongs to the job.
  for (const Incarnation one : {Conversation::server(0), Conversation::worker(1)}) {
    CHECK(notices<View>(job.say(600, StreamOpened{one})).size() == 1);
  }
  CHECK(notices<View>(job.say(620, meeting(1, 1))).size() == 1);

  // The others finish the job.
  CHECK(all<ReleaseBarrier>(job.say(700, meeting(0, 1))).empty());
  const auto met = all<ReleaseBarrier>(job.say(710, meeting(2, 1)));
  REQUIRE(met.size() == 1);
  CHECK(met[0].gone == std::vector<uint32_t>{1});
  (void)job.say(800, Done{.incarnation = Conversation::worker(0)});
  CHECK(notices<Finish>(job.say(810, Done{.incarnation = Conversation::worker(2)})).size() == 1);
  const auto ended = all<End>(job.say(820, Done{.incarnation = Conversation::server(0)}));
  REQUIRE(ended.size() == 1);
  CHECK_FALSE(ended[0].failure);
}

TEST_CASE("a barrier that waited only for a lost worker is released, with what that worker had brought",
          "[sync][membership]") {
  Conversation job = shrinking(3, 1);
  (void)job.say(100, meeting(0, 1));
  (void)job.say(110, meeting(1, 1));
  CHECK(all<ReleaseBarrier>(job.say(120, ProcessEnded{{Role::kWorker, 0}, "ended"})).empty());
  const auto met = all<ReleaseBarrier>(job.say(130, ProcessEnded{{Role::kWorker, 2}, "ended"}));
  REQUIRE(met.size() == 1);
  CHECK(met[0].seq == 1);
  CHECK(met[0].gone == std::vector<uint32_t>{0, 2});
}

TEST_CASE("a silent worker, one without a connection to a server, and one without its device are lost alike",
          "[sync][membership]") {
  Conversation job = shrinking(5, 2);
  const auto failed =
      job.say(100, Done{.incarnation = Conversation::worker(0), .failure = Code::kDevice, .message = "out of memory"});
  REQUIRE(all<DeclareLost>(failed).size() == 1);
  CHECK(all<DeclareLost>(failed)[0].why == "it failed: out of memory");
  CHECK(live_seats(notices<View>(failed).at(0)) == std::vector<bool>{false, true, true, true, true});
  (void)job.say(200, GiveUp{{Role::kWorker, 4}, "it makes no step"});
  (void)job.say(300, LinksLost{Conversation::worker(1), {{.server = 1, .lost_ms = 0, .why = "cut"}}});
  for (const Millis now : {Millis{5'000}, Millis{10'400}}) {
    for (const uint32_t rank : {1U, 2U}) (void)job.say(now, Heartbeat{Conversation::worker(rank)});
    for (const uint32_t rank : {0U, 1U}) (void)job.say(now, Heartbeat{Conversation::server(rank)});
  }
  const auto lost = job.say(10'450, Tick{});
  REQUIRE(all<DeclareLost>(lost).size() == 2);
  CHECK(live_seats(notices<View>(lost).back()) == std::vector<bool>{false, false, true, false, false});
  CHECK(notices<StopJob>(lost).empty());
}

TEST_CASE("the job ends if a server is lost, if no worker is left, or if all workers would fail alike",
          "[sync][membership]") {
  SECTION("a server") {
    Conversation job = shrinking(3, 1);
    CHECK(notices<StopJob>(job.say(100, ProcessEnded{{Role::kServer, 0}, "ended"})).size() == 4);
  }
  SECTION("the last worker") {
    Conversation job = shrinking(2, 1);
    CHECK(notices<StopJob>(job.say(100, ProcessEnded{{Role::kWorker, 1}, "ended"})).empty());
    const auto end = notices<StopJob>(job.say(200, ProcessEnded{{Role::kWorker, 0}, "ended"}));
    REQUIRE_FALSE(end.empty());
    CHECK(end[0].code == Code::kPeerLost);
  }
  SECTION("damaged data") {
    Conversation job = shrinking(3, 1);
    const auto end = notices<StopJob>(
        job.say(100, Done{.incarnation = Conversation::worker(1), .failure = Code::kData, .message = "broken"}));
    REQUIRE_FALSE(end.empty());
    CHECK(end[0].message == "worker 1 failed: broken");
  }
  SECTION("before training has begun") {
    Settings its = settings(3, 1);
    its.on_worker_loss = OnWorkerLoss::kShrink;
    Conversation job(its);
    job.start(3, 1);
    CHECK(notices<StopJob>(job.say(100, ProcessEnded{{Role::kWorker, 1}, "ended"})).size() == 4);
  }
}

TEST_CASE("a worker that is lost while the job is stopping is not waited for", "[sync][membership]") {
  Conversation job = shrinking(3, 0);
  (void)job.say(100, StopRequested{"a signal"});
  (void)job.say(110, Held{Conversation::worker(0), 1, 7});
  (void)job.say(120, Held{Conversation::worker(2), 1, 8});
  const auto decided = notices<StopAfter>(job.say(130, ProcessEnded{{Role::kWorker, 1}, "ended"}));
  REQUIRE(decided.size() == 2);
  CHECK(decided[0].steps == 8);
}

TEST_CASE("a worker that is asked to leave ends its step, and the others continue without it", "[sync][membership]") {
  Conversation job = shrinking(3, 1);
  const auto asked = job.say(100, LeaveAsked{.rank = 1});
  REQUIRE(all<Tell>(asked).size() == 1);
  CHECK(all<Tell>(asked)[0].to == Conversation::worker(1));
  CHECK(notices<LeaveJob>(asked).size() == 1);
  CHECK(job.say(110, LeaveAsked{.rank = 1}).empty());  // another request; both are answered when it has left
  CHECK(notices<LeaveJob>(job.say(120, StreamOpened{Conversation::worker(1)})).size() == 1);
  (void)job.say(130, meeting(0, 1));
  (void)job.say(140, meeting(2, 1));  // they wait for worker 1

  const auto left = job.say(200, Done{.incarnation = Conversation::worker(1), .steps_begun = 9, .has_left = true});
  CHECK(all<DeclareLeft>(left).size() == 1);
  CHECK(all<DeclareLost>(left).empty());
  const auto views = notices<View>(left);
  REQUIRE(views.size() == 3);  // not to the worker that has left
  CHECK(live_seats(views[0]) == std::vector<bool>{true, false, true});
  REQUIRE(all<ReleaseBarrier>(left).size() == 1);
  CHECK(all<ReleaseBarrier>(left)[0].gone == std::vector<uint32_t>{1});
}

TEST_CASE("a worker that cannot leave stays, and the request is refused with the reason", "[sync][membership]") {
  const auto refusal = [](const std::vector<Effect>& effects) {
    REQUIRE(all<RefuseLeave>(effects).size() == 1);
    CHECK(effects.size() == 1);
    return all<RefuseLeave>(effects)[0].why;
  };
  Conversation fixed(settings(2, 1));
  fixed.start(2, 1);
  CHECK_THAT(refusal(fixed.say(10, LeaveAsked{.rank = 0})), Catch::Contains("without --on-worker-loss wait or"));
  Conversation job = shrinking(3, 1);
  CHECK(refusal(job.say(10, LeaveAsked{.rank = 3})) == "worker 3 does not take part in the job now");
  CHECK(all<RefuseLeave>(job.say(20, LeaveAsked{.rank = 0})).empty());
  CHECK(all<RefuseLeave>(job.say(30, LeaveAsked{.rank = 1})).empty());
  CHECK(refusal(job.say(40, LeaveAsked{.rank = 2})) == "worker 2 cannot leave: no other worker would be left");

  SECTION("a loss before it has left") {
    const auto lost = job.say(50, ProcessEnded{{Role::kWorker, 0}, "ended"});
    CHECK(all<RefuseLeave>(lost).at(0).why == "worker 0 was lost before it had left");
    CHECK(all<DeclareLost>(lost).at(0).continues);
  }
  SECTION("the end of the training") {
    const auto done = job.say(50, Done{.incarnation = Conversation::worker(0)});
    CHECK(all<RefuseLeave>(done).at(0).why == "worker 0 ended before it had left");
  }
  SECTION("the loss of the only worker that stays ends the job") {
    const auto end = notices<StopJob>(job.say(50, ProcessEnded{{Role::kWorker, 2}, "ended"}));
    REQUIRE_FALSE(end.empty());
    CHECK(end[0].code == Code::kPeerLost);
  }
  SECTION("a job that is about to end") {
    (void)job.say(50, StopRequested{"a signal"});
    CHECK_THAT(refusal(job.say(60, LeaveAsked{.rank = 2})), Catch::Contains("about to end"));
  }
}

TEST_CASE("a job does not continue with fewer workers than --min-workers", "[sync][membership]") {
  Settings its = settings(4, 1);
  its.min_workers = 3;
  Conversation job = shrinking(its);
  CHECK(notices<StopJob>(job.say(10, ProcessEnded{{Role::kWorker, 3}, "ended"})).empty());
  CHECK(all<RefuseLeave>(job.say(20, LeaveAsked{.rank = 0})).at(0).why ==
        "worker 0 cannot leave: fewer than 3 workers would be left (--min-workers)");
  CHECK_FALSE(notices<StopJob>(job.say(30, ProcessEnded{{Role::kWorker, 2}, "ended"})).empty());
}

TEST_CASE("a signal to one worker makes it leave, and signals to all workers stop the job", "[sync][membership]") {
  Conversation job = shrinking(3, 1);
  const auto drain = [](uint32_t rank) { return LeaveAsked{.rank = rank, .by_signal = true}; };
  SECTION("one worker") {
    CHECK(job.say(100, drain(1)).empty());
    CHECK(notices<LeaveJob>(job.say(1'000, Tick{})).empty());
    CHECK(job.say(1'050, drain(1)).empty());  // on a new stream; the time does not start again
    const auto told = job.say(1'100, Tick{});
    CHECK(notices<LeaveJob>(told).size() == 1);
    CHECK(notices<Hold>(told).empty());
    CHECK(notices<LeaveJob>(job.say(1'200, Tick{})).empty());
  }
  SECTION("the job is asked to stop in the meantime") {
    (void)job.say(100, drain(1));
    CHECK(notices<Hold>(job.say(500, StopRequested{"the scheduler"})).size() == 3);
    CHECK(notices<LeaveJob>(job.say(1'200, Tick{})).empty());
  }
  SECTION("all workers") {
    for (const uint32_t rank : {0U, 1U, 2U}) (void)job.say(100 + 100 * rank, drain(rank));
    const auto told = job.say(1'100, Tick{});
    CHECK(notices<LeaveJob>(told).empty());
    CHECK(notices<Hold>(told).size() == 3);
  }
  SECTION("more workers than the job can do without") {
    (void)job.say(50, LeaveAsked{.rank = 0});
    (void)job.say(60, LeaveAsked{.rank = 1});
    (void)job.say(100, drain(2));
    CHECK(notices<Hold>(job.say(1'100, Tick{})).size() == 3);
  }
}

namespace {

// A job whose workers meet at a border as soon as one of them is gone. Worker 2 is lost.
Conversation held_for_border(std::vector<Effect>& told) {
  Settings its = settings(3, 1);
  its.meets_on_change = true;
  Conversation job = shrinking(its);
  told = job.say(100, ProcessEnded{{Role::kWorker, 2}, "ended"});
  return job;
}

BarrierEnter at_border(uint32_t rank, uint64_t border, uint64_t seq = 1) {
  BarrierEnter enter = meeting(rank, seq);
  enter.border = border;
  return enter;
}

}  // namespace

TEST_CASE("when a worker is gone, the others stop after the same step, meet, and continue", "[sync][membership]") {
  std::vector<Effect> told;
  Conversation job = held_for_border(told);
  REQUIRE(notices<Hold>(told).size() == 2);
  CHECK(notices<Hold>(told)[0].number == 1);
  CHECK(notices<Hold>(job.say(110, StreamOpened{Conversation::worker(0)})).size() == 1);
  (void)job.say(120, Held{Conversation::worker(0), 1, 7});
  const auto decided = notices<StopAfter>(job.say(130, Held{Conversation::worker(1), 1, 8}));
  REQUIRE(decided.size() == 2);
  CHECK(decided[0].steps == 8);
  CHECK(decided[0].number == 1);
  CHECK(decided[0].meets);
  CHECK(all<ReleaseBarrier>(job.say(140, at_border(0, 1))).empty());
  CHECK(all<ReleaseBarrier>(job.say(150, at_border(1, 0))).size() == 1);  // it has come to the end of its epoch

  // The job runs as before: it can stop, with another number.
  const auto stopped = job.say(200, StopRequested{"a signal"});
  REQUIRE(notices<Hold>(stopped).size() == 2);
  CHECK(notices<Hold>(stopped)[0].number == 2);
  CHECK(job.say(210, Held{Conversation::worker(0), 1, 7}).empty());  // late
  (void)job.say(220, Held{Conversation::worker(0), 2, 20});
  const auto last = notices<StopAfter>(job.say(230, Held{Conversation::worker(1), 2, 20}));
  REQUIRE(last.size() == 2);
  CHECK_FALSE(last[0].meets);
}

TEST_CASE("whatever comes before a border is reached waits for it or takes place", "[sync][membership]") {
  std::vector<Effect> told;
  Conversation job = held_for_border(told);
  const auto decide = [&] {
    (void)job.say(120, Held{Conversation::worker(0), 1, 7});
    (void)job.say(130, Held{Conversation::worker(1), 1, 8});
  };
  SECTION("a barrier within the steps that are left is not the border") {
    decide();
    (void)job.say(140, meeting(0, 1));
    CHECK(all<ReleaseBarrier>(job.say(150, meeting(1, 1))).size() == 1);
    CHECK(notices<StopAfter>(job.say(160, StreamOpened{Conversation::worker(1)})).size() == 1);
    (void)job.say(170, at_border(0, 1, 2));
    CHECK(all<ReleaseBarrier>(job.say(180, at_border(1, 1, 2))).size() == 1);
    CHECK(notices<StopAfter>(job.say(190, StreamOpened{Conversation::worker(1)})).empty());
  }
  SECTION("a request to stop follows the border") {
    CHECK(notices<Hold>(job.say(110, StopRequested{"a signal"})).empty());
    decide();
    (void)job.say(140, at_border(0, 1));
    const auto met = job.say(150, at_border(1, 1));
    CHECK(all<ReleaseBarrier>(met).size() == 1);
    REQUIRE(notices<Hold>(met).size() == 2);
    CHECK(notices<Hold>(met)[0].number == 2);
  }
  SECTION("another loss needs no further border") {
    decide();
    (void)job.say(140, at_border(0, 1));
    const auto lost = job.say(150, ProcessEnded{{Role::kWorker, 1}, "ended"});
    REQUIRE(all<ReleaseBarrier>(lost).size() == 1);
    CHECK(all<ReleaseBarrier>(lost)[0].gone == std::vector<uint32_t>{1, 2});
    CHECK(notices<Hold>(lost).empty());
  }
  SECTION("a loss after the border has one of its own") {
    decide();
    (void)job.say(140, at_border(0, 1));
    (void)job.say(150, at_border(1, 1));
    const auto lost = notices<Hold>(job.say(160, ProcessEnded{{Role::kWorker, 1}, "ended"}));
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].number == 2);
  }
  SECTION("a worker may leave") {
    CHECK(notices<LeaveJob>(job.say(110, LeaveAsked{.rank = 1})).size() == 1);
    (void)job.say(120, Held{Conversation::worker(0), 1, 7});
    (void)job.say(130, Held{Conversation::worker(1), 1, 8});
    (void)job.say(140, at_border(0, 1));
    const auto left = job.say(150, Done{.incarnation = Conversation::worker(1), .steps_begun = 8, .has_left = true});
    CHECK(all<ReleaseBarrier>(left).size() == 1);
    CHECK(all<DeclareLeft>(left).size() == 1);
  }
}

TEST_CASE("a worker may ask for a border, and needs no other one on the way to it", "[sync][membership]") {
  Conversation job(settings(2, 0));
  job.start(2, 0);
  CHECK(notices<Hold>(job.say(100, BorderAsked{Conversation::worker(1)})).size() == 2);
  CHECK(job.say(110, BorderAsked{Conversation::worker(1)}).empty());
  (void)job.say(120, Held{Conversation::worker(0), 1, 7});
  (void)job.say(130, Held{Conversation::worker(1), 1, 7});
  CHECK(job.say(140, BorderAsked{Conversation::worker(1)}).empty());
  (void)job.say(150, at_border(0, 1, 0));
  const auto met = job.say(160, at_border(1, 1, 0));
  CHECK(all<ReleaseBarrier>(met).size() == 1);
  CHECK(notices<Hold>(met).empty());
  CHECK(notices<Hold>(job.say(170, BorderAsked{Conversation::worker(0)})).size() == 2);
  (void)job.say(180, StopRequested{"a signal"});
  CHECK(job.say(190, BorderAsked{9'999}).empty());  // a stranger
}

TEST_CASE("stop sets that change before a border is reached hold after it", "[sync][membership]") {
  Conversation job(settings(2, 0));
  job.start(2, 0, {0, 1});
  (void)job.say(100, BorderAsked{Conversation::worker(0)});
  (void)job.say(110, Held{Conversation::worker(0), 1, 7});
  (void)job.say(120, Held{Conversation::worker(1), 1, 9});
  // Both have come to the end of an epoch, where they are put into one group.
  for (const uint32_t rank : {0U, 1U}) {
    BarrierEnter enter = at_border(rank, 0, 0);
    enter.stop_set_of = {0, 0};
    (void)job.say(130, enter);
  }
  CHECK(notices<StopAfter>(job.say(140, StreamOpened{Conversation::worker(1)})).at(0).steps == 0);
  for (const uint32_t rank : {0U, 1U}) (void)job.say(150, at_border(rank, 1, 1));
  (void)job.say(160, StopRequested{"a signal"});
  (void)job.say(170, Held{Conversation::worker(0), 2, 20});
  const auto last = notices<StopAfter>(job.say(180, Held{Conversation::worker(1), 2, 21}));
  REQUIRE(last.size() == 2);
  for (const StopAfter& one : last) CHECK(one.steps == 21);
}

}  // namespace dtrain::sync::membership
