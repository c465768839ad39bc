// `dtrain plan` with real workers on this host: what it measures, and that a job runs with the files it wrote.

#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

// The command line of a job of four workers on the images in data/.
std::vector<std::string> job_in(const std::vector<std::string>& begin, const std::vector<std::string>& end) {
  return command_line(dtrain_program(), begin,
                      "-n 4 --network lenet --data-dir data --batch-size 10 --threads 1 --seed 5 --lr 0.02 "
                      "--kv-store dist_gsync --data-allocator 1",
                      end);
}

Ended run_dtrain(const TempDir& dir, const std::vector<std::string>& begin, const std::vector<std::string>& end) {
  return run(job_in(begin, end), {.deadline_s = 120, .directory = dir.path(), .environment = {}});
}

void make_data(const TempDir& dir) {
  std::vector<size_t> numbers(800);
  std::iota(numbers.begin(), numbers.end(), 0);
  write_mnist(dir.path("data"), numbers);
}

}  // namespace

TEST_CASE("a slow worker is measured and gets its own group, and a job runs with the plan's files", "[plan]") {
  const TempDir dir;
  make_data(dir);
  // The tolerance is wide because the host may be busy. Only worker 2 must be separated.
  const Ended plan = run_dtrain(dir, {"plan", "--probe-batches", "15", "--group-tolerance", "0.5"},
                                {"--inject", "step-ms=60,step-ms=180@worker:2"});
  INFO(plan.output);
  REQUIRE(plan.code == 0);
  CHECK_THAT(plan.output, Contains("group 0: workers 0 1 3; the slowest ") && Contains("group 1: worker 2; "));
  CHECK_THAT(plan.output, Contains("expected: GSP ") && Contains(" times as fast as BSP (simulated: "));
  CHECK_THAT(plan.output, Contains("\ngroups: written\ndata_sharding: written\n"));
  CHECK(must(read_file(dir.path("groups"))) == "#0 #1 #3\n#2\n");

  const Ended job = run_dtrain(dir, {}, {"--num-epochs", "2", "--run-dir", "run"});
  INFO(job.output);
  REQUIRE(job.code == 0);
  const job::JobSpec spec = must(job::read_job_spec(dir.path("run")));
  CHECK(spec.groups == std::vector<int64_t>{0, 0, 1, 0});
  const auto share = [&](size_t rank) { return spec.shares[rank].end - spec.shares[rank].begin; };
  CHECK(std::abs(share(0) - share(3)) <= 1);
  CHECK(share(2) < 160);  // would be 80 of 800 on an idle host

  // A plan can also be made from the logs of the calibration run.
  std::string logs;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path("runs"))) logs = entry.path().string();
  const Ended again = run_dtrain(dir, {"plan", "--from-log", logs, "--group-tolerance", "0.5"}, {});
  INFO(again.output);
  CHECK(again.code == 0);
  CHECK_THAT(again.output, Contains("groups: unchanged, because it already has this content\ndata_sharding: unchanged, "
                                    "because it already has this content\n"));
}

TEST_CASE("a plan of a BSP run needs no flags, and its speeds are those of the workers' own steps", "[plan]") {
  const TempDir dir;
  make_data(dir);
  const Ended job =
      run(command_line(dtrain_program(),
                       "-n 3 -s 1 --network lenet --data-dir data --batch-size 10 --threads 1 --kv-store dist_sync "
                       "--num-epochs 1 --num-examples 300 --run-dir run --inject step-ms=60,step-ms=300@worker:2"),
          {.deadline_s = 120, .directory = dir.path(), .environment = {}});
  INFO(job.output);
  REQUIRE(job.code == 0);
  const Ended plan = run({dtrain_program(), "plan", "--from-log", "run", "--group-tolerance", "0.5"},
                         {.deadline_s = 60, .directory = dir.path(), .environment = {}});
  INFO(plan.output);
  REQUIRE(plan.code == 0);
  CHECK_THAT(plan.output, Contains("group 0: workers 0 1; the slowest ") && Contains("group 1: worker 2; "));
  CHECK(must(read_file(dir.path("groups"))) == "#0 #1\n#2\n");
}

TEST_CASE("a calibration run that fails or is stopped writes no files", "[plan]") {
  const TempDir dir;
  make_data(dir);
  const Ended killed = run_dtrain(dir, {"plan", "--probe-batches", "1000"}, {"--inject", "kill=worker:1@step:12"});
  INFO(killed.output);
  CHECK(killed.code == 5);
  CHECK_THAT(killed.output, Contains("worker 1 was killed by signal 9"));
  CHECK_FALSE(std::filesystem::exists(dir.path("groups")));
  CHECK_FALSE(std::filesystem::exists(dir.path("data_sharding")));

  Process stopped(job_in({"plan", "--probe-batches", "100000"}, {}), {.directory = dir.path(), .environment = {}});
  const bool has_begun = stopped.wait_for_output("Resizing training data", 60);  // perhaps within the same second
  INFO(stopped.output());
  REQUIRE(has_begun);
  stopped.signal(SIGTERM);
  const Ended end = stopped.wait(30);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK_THAT(end.output, Contains("stopped; no plan was written"));
  CHECK_FALSE(std::filesystem::exists(dir.path("groups")));

  must(write_file_atomic(dir.path("groups"), "# Notes, not to be lost\n"));
  const Ended refused = run_dtrain(dir, {"plan"}, {});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, Contains("groups exists but is a different kind of file, so it is not overwritten"));
}

TEST_CASE("a plan needs the number of workers, and a dry run starts none", "[plan]") {
  const TempDir dir;
  make_data(dir);
  const Ended dry = run_dtrain(dir, {"plan", "--dry-run", "--probe-batches", "7"}, {});
  CHECK(dry.code == 0);
  CHECK_THAT(dry.output, Contains(" plan --probe-batches 7 -n 4 ") && Contains("--role worker --rank 3"));
  CHECK_THAT(dry.output, !Contains("--role server") && !Contains("--dry-run"));
  CHECK_FALSE(std::filesystem::exists(dir.path("runs")));
  const Ended help = run({dtrain_program(), "plan", "--help"}, {.deadline_s = 30, .directory = {}, .environment = {}});
  CHECK(help.code == 0);
  CHECK_THAT(help.output, Contains("--probe-batches N") && Contains("--group-tolerance X"));
  const Ended alone = run({dtrain_program(), "plan", "--network", "lenet", "--data-dir", dir.path("data")},
                          {.deadline_s = 30, .directory = {}, .environment = {}});
  CHECK(alone.code == 2);
  CHECK_THAT(alone.output, Contains("the number of workers to measure is missing"));
}
