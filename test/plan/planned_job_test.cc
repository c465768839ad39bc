#include "plan/planned_job.h"

#include "base/file.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::plan;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

job::Flags flags_of(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"--network",    "lenet", "--benchmark",   "1",
                                        "--batch-size", "50",    "--num-batches", "7"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  job::Flags flags =
      must(job::parse_flags(arguments, [](const std::string&) { return std::optional<std::string>(); })).flags;
  must(prepare_plan(flags));
  return flags;
}

// Writes the logs of two workers into the directory: 100 and 40 samples/s.
void write_logs(const TempDir& dir) {
  for (const auto& [rank, speed] : {std::pair(0, 100), {1, 40}}) {
    std::string log;
    for (const int batch : {20, 40}) {
      log += fmt::format("Node[{}] Epoch[0] Batch [{}]\tSpeed: {} samples/sec\n", rank, batch, speed);
    }
    must(write_file_atomic(dir.path(fmt::format("worker-{}.log", rank)), log));
  }
}

// Of two workers.
job::JobSpec spec_of(const char* kv_store) {
  job::JobSpec spec;
  spec.flags.scheme.kv_store = kv_store;
  spec.flags.num_workers = 2;
  spec.flags.num_servers = 1;
  spec.flags.batch_size = 50;
  return spec;
}

}  // namespace

TEST_CASE("a log says how many workers the planned job has, and its flags the rest", "[plan][plan]") {
  const TempDir dir;
  write_logs(dir);
  const PlannedJob job = must(job_of_log(flags_of(), dir.path()));
  CHECK(job.speeds == std::vector<double>{100, 40});
  CHECK(job.places.size() == 2);
  CHECK(job.batch_size == 50);
  CHECK(job.servers == 2);  // as many as workers
  CHECK(job.records == 2 * 7 * 50);
  CHECK(job.bytes == 4 * 431080);  // the parameters of lenet
  CHECK(job.hint.empty());
  CHECK_THAT(job_of_log(flags_of({"-n", "3", "-s", "1"}), dir.path()).error().text(), Contains("worker 2 of 3"));
}

TEST_CASE("the log of a BSP run gives a hint that its workers waited for the slowest", "[plan][plan]") {
  const TempDir dir;
  write_logs(dir);
  must(job::write_job_spec(dir.path(), spec_of("dist_sync")));
  CHECK_THAT(must(job_of_log(flags_of(), dir.path())).hint, Contains("a run with dist_sync"));
  must(job::write_job_spec(dir.path(), spec_of("dist_async")));
  CHECK(must(job_of_log(flags_of(), dir.path())).hint.empty());
}

TEST_CASE("a run directory gives the speeds of the workers' own steps, without their waits", "[plan][plan]") {
  const TempDir dir;
  write_logs(dir);
  must(job::write_job_spec(dir.path(), spec_of("dist_sync")));
  std::string lines;
  // Both workers made 60 steps in 30 s. Worker 1 needed all of that for itself, worker 0 a third.
  for (const auto& [rank, own, wait] : {std::tuple(0, 10.0, 20.0), {1, 29.0, 1.0}}) {
    lines += fmt::format(
        R"({{"role":"worker","rank":{},"epoch":0,"step":60,"bad_records":0,"wait_data_share":0,"seconds":40,"phase_s":)"
        R"({{"data_wait":{},"other":{},"pull_wait":{},"validation":5,"checkpoint":5}}}})"
        "\n",
        rank, own / 2, own / 2, wait);
  }
  must(write_file_atomic(dir.path("metrics.jsonl"), lines));
  const PlannedJob job = must(job_of_log(flags_of({"-n", "2", "-s", "1"}), dir.path()));
  REQUIRE(job.speeds.size() == 2);
  CHECK(job.speeds[0] == Approx(300));
  CHECK(job.speeds[1] == Approx(60 * 50 / 29.0));
  CHECK_THAT(job.speeds_from, Contains("without its waits for weights"));
  CHECK(job.hint.empty());
  CHECK_THAT(job_of_log(flags_of({"-n", "3", "-s", "1"}), dir.path()).error().text(), Contains("worker 2 of 3"));

  must(write_file_atomic(dir.path("metrics.jsonl"), lines.substr(0, lines.find('\n') + 1)));
  const PlannedJob without = must(job_of_log(flags_of({"-n", "2", "-s", "1"}), dir.path()));
  CHECK(without.speeds == std::vector<double>{100, 40});
  CHECK_THAT(without.hint, Contains("no epoch has ended"));
}

TEST_CASE("the flags of a run directory are the defaults of its plan", "[plan][plan]") {
  const TempDir dir;
  // A directory of runs has no flags either, but the missing flags of a job are not what is wrong with it.
  const Result<std::vector<std::string>> no_run = with_flags_of_run({}, dir.path());
  REQUIRE_FALSE(no_run);
  CHECK_THAT(no_run.error().text(), Contains(dir.path()) && Contains("no logs of workers"));
  CHECK_FALSE(with_flags_of_run({}, dir.path("no-such.log")));
  write_logs(dir);
  CHECK(must(with_flags_of_run({"-n", "2"}, dir.path())) == std::vector<std::string>{"-n", "2"});
  must(job::write_job_spec(dir.path(), spec_of("dist_sync")));
  CHECK(must(with_flags_of_run({"-n", "2"}, dir.path())) ==
        std::vector<std::string>{"--resume", dir.path(), "-n", "2"});
}

TEST_CASE("a calibration gives the speeds and the number of records", "[plan][plan]") {
  const TempDir dir;
  write_logs(dir);
  CHECK_FALSE(job_of_calibration(flags_of({"-n", "2"}), dir.path(), 50));  // there is no JobSpec
  job::JobSpec spec;
  spec.flags.scheme.kv_store = "allreduce";
  must(job::write_job_spec(dir.path(), spec));
  const PlannedJob job = must(job_of_calibration(flags_of({"-n", "2", "-s", "1"}), dir.path(), 50));
  CHECK(job.speeds == std::vector<double>{100, 40});
  CHECK(job.servers == 1);
  CHECK_THAT(job.speeds_from, Contains("the median of 50 batches of 50") && Contains(dir.path()));
}

TEST_CASE("an invalid network or output path is refused before anything is measured", "[plan][plan]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("notes"), "not a groups file!\n"));
  job::Flags flags = flags_of();
  flags.launch.groups_file = dir.path("notes");
  CHECK_THAT(prepare_plan(flags).error().text(), Contains("--groups-file"));
  flags = flags_of();
  flags.job.network.network = "lennet";
  CHECK_THAT(prepare_plan(flags).error().text(), Contains("did you mean 'lenet'"));
}

TEST_CASE("two calibrations in the same second get different directories", "[plan][plan]") {
  const TempDir dir;
  job::Flags flags;
  flags.launch.run_dir = dir.path();
  const std::string first = calibration_dir(flags);
  CHECK(first.starts_with(dir.path("plan-")));
  must(make_directories(first));
  const std::string second = calibration_dir(flags);
  CHECK(second != first);
  CHECK_FALSE(std::filesystem::exists(second));
}
