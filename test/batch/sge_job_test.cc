// What qstat prints about a job of Grid Engine.
#include "cluster/sge_job.h"

#include "support/catch.h"
#include "support/must.h"

namespace dtrain::cluster {
namespace {

using dtrain::test::must;

const std::vector<std::string> kRunning = {
    "job-ID  prior   name       user         state submit/start at     queue                          slots "
    "ja-task-ID ",
    "-----------------------------------------------------------------------------------------------------------------",
    "     11 0.50000 other      root         r     11/25/2026 02:05:35 all.q@node1                        1 1",
    "      1 0.50000 dtrain-len root         r     11/25/2026 02:05:35 all.q@node2                        1 1",
    "      1 0.00000 dtrain-len root         qw    11/25/2026 02:05:32                                    1 2-3:1"};

}  // namespace

TEST_CASE("the tasks of a job that run and wait are told apart", "[cluster][sge]") {
  const auto state = parse_qstat(kRunning, "1");
  REQUIRE(state);
  CHECK(state->running == std::vector<std::string>{"1"});
  CHECK(state->waiting == std::vector<std::string>{"2-3:1"});
  const BatchState now = state_of(*state, "1");
  CHECK(now.phase == BatchState::Phase::kRunning);
  CHECK(now.text == "tasks 1 runs on all.q@node2; tasks 2-3:1 waiting in the queue (qw)");
  CHECK_FALSE(parse_qstat(kRunning, "2"));
  CHECK_FALSE(parse_qstat({}, "1"));
}

TEST_CASE("a job that Grid Engine cannot start is hopeless, in Grid Engine's words", "[cluster][sge]") {
  const auto state = parse_qstat(
      {"      1 0.50000 dtrain-len root         Eqw   11/25/2026 02:03:32                                    1 1-3:1",
       "error reason          1:      11/25/2026 02:03:33 [0:10093]: error: can't open output file \"/a b\": No such "
       "file"},
      "1");
  REQUIRE(state);
  const BatchState now = state_of(*state, "1");
  CHECK(now.phase == BatchState::Phase::kWaiting);
  CHECK(now.never.find("can't open output file \"/a b\": No such file") != std::string::npos);
}

TEST_CASE("the number of a job is read from what qsub prints", "[cluster][sge]") {
  const auto system = sge_batch({.request = {.name = "x", .queue = {}}}, "job.sh");
  CHECK(must(system->job_of({"12.1-3:1"})) == "12");
  CHECK(must(system->job_of({"Your advice", "7"})) == "7");
  CHECK(system->job_of({"nothing"}).error().code == Code::kStartup);
}

}  // namespace dtrain::cluster
