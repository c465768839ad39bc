#include "observe/stall_watch.h"

#include "support/catch.h"

using namespace dtrain::observe;

namespace {

Activity worker(int rank, uint64_t steps, const std::string& wait = "") {
  return {.who = "worker " + std::to_string(rank), .host = "node7", .steps = steps, .wait = wait};
}

std::vector<std::string> names(const std::vector<Stalled>& stalled) {
  std::vector<std::string> all;
  all.reserve(stalled.size());
  for (const Stalled& one : stalled) all.push_back(one.who);
  return all;
}

}  // namespace

TEST_CASE("a worker without a step is named, and not the workers that wait", "[stall]") {
  StallWatch watch(60);
  CHECK(watch.update({worker(0, 5), worker(1, 5)}, 0).empty());
  CHECK(watch.update({worker(0, 6, "barrier 'x'"), worker(1, 5)}, 59).empty());
  const std::vector<Stalled> stalled = watch.update({worker(0, 6, "barrier 'x'"), worker(1, 5)}, 61);
  REQUIRE(names(stalled) == std::vector<std::string>{"worker 1"});
  CHECK(stalled[0].sentence == "worker 1 (node7) has made no step for 61 s, and waits for no other process");
  CHECK(stalled[0].seconds == 61);
  CHECK(stalled[0].is_news);
  CHECK_FALSE(watch.update({worker(0, 6, "barrier 'x'"), worker(1, 5)}, 62)[0].is_news);
  CHECK(watch.update({worker(0, 6, "barrier 'x'"), worker(1, 6)}, 63).empty());
  CHECK(watch.update({worker(0, 7), worker(1, 6)}, 130)[0].is_news);  // it stands again
}

TEST_CASE("work that takes long is no stall, and a process that has ended is none", "[stall]") {
  StallWatch watch(60);
  Activity validates = worker(0, 5, "validation");
  validates.is_own_work = true;
  Activity ended = worker(1, 5);
  ended.has_ended = true;
  for (const double now : {0.0, 100.0, 200.0}) {
    CHECK(watch.update({validates, ended, worker(2, 5, "barrier 'x'")}, now).empty());
  }
  CHECK(watch.update({worker(0, 5), ended}, 259).empty());  // 59 s after its validation
  CHECK(names(watch.update({worker(0, 5), ended}, 260)) == std::vector<std::string>{"worker 0"});
}

TEST_CASE("a process that cannot report is named, also a server", "[stall]") {
  StallWatch watch(60);
  Activity server{.who = "server 0", .wait = "the workers to be done", .report_age_s = 59};
  CHECK(watch.update({server, worker(0, 5, "key 1 on server 0")}, 0).empty());
  server.report_age_s = 61;
  const std::vector<Stalled> stalled = watch.update({server, worker(0, 5, "key 1 on server 0")}, 61);
  REQUIRE(names(stalled) == std::vector<std::string>{"server 0"});
  CHECK_THAT(stalled[0].sentence, Catch::StartsWith("server 0 lives, but for 61 s has not been able to report"));
}

TEST_CASE("if each worker waits for another process, the waits are listed", "[stall]") {
  StallWatch watch(60);
  std::vector<Activity> all;
  all.reserve(7);
  for (int rank = 0; rank < 6; rank++) all.push_back(worker(rank, 5, "key 1 on server 0"));
  CHECK(watch.update(all, 0).empty());
  all.push_back({.who = "server 0", .wait = "the workers to be done", .report_age_s = 31});
  CHECK(watch.update(all, 60).empty());  // because it may be the server that stands
  all.back().report_age_s = 1;
  const std::vector<Stalled> stalled = watch.update(all, 60);
  REQUIRE(stalled.size() == 1);
  CHECK_THAT(stalled[0].sentence, Catch::StartsWith("no worker has made a step for 60 s, and each waits") &&
                                      Catch::EndsWith("worker 3 (node7) for key 1 on server 0, and 2 more"));
  CHECK_FALSE(watch.update(all, 61)[0].is_news);
}
