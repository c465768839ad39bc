// A job continues without workers that are killed (--on-worker-loss shrink; faults_test.cc draws other moments), or
// that leave as they are asked. What must hold: no other process ends or starts again, and the job trains to its end.

#include <csignal>
#include <cstdio>
#include <map>
#include <sstream>

#include "base/json.h"
#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/process_of_job.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

// The number of steps after which the worker has left, as its log says; -1: it says nothing of the kind.
int64_t steps_at_leave(const std::string& log) {
  const size_t at = log.find("left the job as asked, after ");
  int64_t steps = -1;
  if (at != std::string::npos) std::sscanf(log.c_str() + at, "left the job as asked, after %ld steps", &steps);
  return steps;
}

// The gradients of the worker that a server has added to its slice 0.0, as its event log says.
int64_t gradients_added(const std::string& event_log, const std::string& rank) {
  std::istringstream lines(event_log);
  int64_t count = 0;
  bool is_push = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_push && line.starts_with("  add " + rank + " ")) count++;
    is_push = line.starts_with("0.0 push " + rank + " ");
  }
  return count;
}

}  // namespace

TEST_CASE("a job that has lost its leader is resumed with the workers that were left, and with all", "[shrink]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_sync --deterministic 1"));
  const Ended shrunk = jobs.run("shrunk", command_line("--num-epochs 3 --inject kill=worker:0@step:30"));
  INFO(shrunk.output);
  REQUIRE(shrunk.code == 0);
  CHECK(contains(jobs.text_of("shrunk/worker-1.log"), "this worker writes the checkpoints from now on"));
  for (const std::string workers : {"2", "3"}) {
    const Ended resumed =
        jobs.run("resumed" + workers, command_line("--num-epochs 5 -n", workers, "--resume", jobs.path("shrunk")));
    INFO(resumed.output);
    CHECK(resumed.code == 0);
    CHECK(contains(resumed.output, "The run continues at epoch 3 step 0 "));
  }
}

TEST_CASE("a job without a worker left ends with the code of a lost process", "[shrink]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_async"));
  const Ended end =
      jobs.run("run", command_line("--inject", "kill=worker:0@step:30,kill=worker:1@step:40,kill=worker:2@step:50"));
  INFO(end.output);
  CHECK(end.code == 5);
  CHECK(contains(end.output, " was lost: its process was killed by signal 9 (Killed)"));
  CHECK(left_over(jobs.path("run")).empty());
}

TEST_CASE("workers leave a job, the leader first, and the servers have all their gradients", "[shrink]") {
  const std::string kind = GENERATE("dist_sync -s 1 --trace-events events", "dist_async -s 1 --trace-events events",
                                    "nccl_allreduce -s 0 --cpus 2");
  const bool has_servers = contains(kind, "-s 1");
  const ChangingJobs jobs("shrink", command_line("--kv-store", kind.c_str()));
  Process launcher(jobs.command("run", command_line("--num-epochs 6 --inject step-ms=10")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const std::map<std::string, pid_t> before = jobs.survivors("run", 0);
  for (const std::string rank : {"0", "1"}) {
    const Ended left = jobs.ask({"leave", rank});
    INFO(left.output);
    CHECK(left.code == 0);
    CHECK(contains(left.output, "worker " + rank + " on "));
    if (rank == "0") CHECK(before == jobs.survivors("run", 0));
  }
  const Ended last = jobs.ask({"leave", "2"});
  CHECK(last.code == 2);
  CHECK(contains(last.output, "worker 2 cannot leave: no other worker would be left"));
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(left_over(jobs.path("run")).empty());
  const nlohmann::json summary = jobs.summary("run");
  CHECK(summary.at("epochs") == 6);
  CHECK(jobs.changes("run") == "worker 0 left, worker 1 left");
  for (const std::string rank : {"0", "1"}) {
    INFO("worker " << rank);
    const int64_t steps = steps_at_leave(jobs.text_of("run/worker-" + rank + ".log"));
    CHECK(steps > 0);
    if (has_servers) CHECK(gradients_added(jobs.text_of("events"), rank) == steps);
  }
  if (has_servers) CHECK(jobs.ask({"simulate", "--replay", "events"}).code == 0);
}

TEST_CASE("with --drain, TERM takes one worker out of a job, and TERM to all stops the job", "[shrink]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_ssync --drain"));
  Process launcher(jobs.command("run", command_line("--num-epochs 1000 --inject step-ms=10")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const pid_t drained = process_of_job(jobs.path("run"), "worker", 1);
  REQUIRE(::kill(drained, SIGTERM) == 0);
  REQUIRE(launcher.wait_for_output("worker 1 has left as asked; the job continues without it", kRunSeconds));
  CHECK(process_of_job(jobs.path("run"), "worker", 0) != 0);
  for (const uint64_t rank : {0, 2}) REQUIRE(::kill(process_of_job(jobs.path("run"), "worker", rank), SIGTERM) == 0);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(std::filesystem::exists(jobs.path("run") + "/lenet-last.params"));
  CHECK(jobs.changes("run") == "worker 1 left");
}

TEST_CASE("with --reshare now, the others read what a worker that has left has not read of the epoch", "[shrink]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_sync --reshare now"));
  Process launcher(jobs.command("run", command_line("--num-epochs 3 --inject step-ms=30")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  REQUIRE(jobs.ask({"leave", "0"}).code == 0);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  // 400 images in batches of 4: all three have made the same number of steps, and two read the rest once.
  for (const std::string rank : {"1", "2"}) {
    const std::string log = jobs.text_of("run/worker-" + rank + ".log");
    const size_t at = log.find("epoch 1: the ");
    REQUIRE(at != std::string::npos);
    int left = 0, steps = 0;
    REQUIRE(std::sscanf(log.c_str() + at,
                        "epoch 1: the %d records that are left are divided among 2 workers, in %d steps", &left,
                        &steps) == 2);
    CHECK(left % 4 == 0);
    CHECK((400 - left) % 12 == 0);
    CHECK(steps == (left + 7) / 8);
  }
  CHECK(contains(jobs.text_of("run/worker-1.log"), "Epoch[2] Validation-accuracy="));
}
