// Jobs in allocations of a real Slurm (slurm.h).
#include "slurm.h"

#include <csignal>
#include <filesystem>
#include <memory>

#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

// A job of 3 workers and 2 servers. The nodes' names mean nothing to this host, so its address is given.
std::vector<std::string> job_of(const Slurm& slurm) {
  return command_line(dtrain_program(), "-n 3 -s 2 --run-dir run --advertise", slurm.hosts().gateway(),
                      endless_training(Heartbeats::kDefault));
}

const std::vector<std::string> kShort = command_line("--num-epochs 1 --num-batches 5");

Ended run_job(const Slurm& slurm, const TempDir& dir, const std::vector<std::string>& command) {
  ProcessOptions options = slurm.options(dir.path());
  options.deadline_s = kHostsJobSeconds;
  return run(command, options);
}

}  // namespace

TEST_CASE("inside an allocation of Slurm, srun starts the agents of a job", "[slurm]") {
  const auto slurm = make_or_skip<Slurm>(3);
  if (slurm == nullptr) return;
  const TempDir dir;
  const Ended end = run_job(*slurm, dir, command_line("salloc -N 3", job_of(*slurm), kShort));
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, ", on node[1-3]: --launcher slurm starts the processes on its hosts"));
  CHECK(contains(end.output, "[worker 0 node3] "));
  CHECK(contains(end.output, "join role=worker rank=0 host=node3 addr=" + slurm->hosts().address(2)));
  CHECK(contains(end.output, "join role=server rank=1 host=node2 addr=" + slurm->hosts().address(1)));
  CHECK(std::filesystem::exists(dir.path("run/summary.json")));
  CHECK(slurm->all_quiet(kHostsQuietSeconds));
}

TEST_CASE("nothing of a job in an allocation stays behind, whoever ends", "[slurm]") {
  const auto slurm = make_or_skip<Slurm>(3);
  if (slurm == nullptr) return;
  const TempDir dir;
  Process job(command_line("salloc -N 3", job_of(*slurm)), slurm->options(dir.path()));
  await_output(job, "Time cost=", kHostsStartSeconds);
  std::string words = "stopped; dtrain --resume run continues from the last checkpoint";
  SECTION("Ctrl-C") {
    job.signal_group(SIGINT);
  }
  SECTION("scancel") {
    REQUIRE(run({"/usr/bin/scancel", "--user=root"}, slurm->options(dir.path())).code == 0);
    words = "[srun] ";
  }
  CHECK(slurm->all_quiet(kHostsQuietSeconds));
  const Ended end = job.wait(kHostsQuietSeconds);
  INFO(end.output);
  CHECK(end.code != 0);
  CHECK(contains(end.output, words));
}

TEST_CASE("what is wrong with an allocation is said, and nothing is left in it", "[slurm]") {
  const auto slurm = make_or_skip<Slurm>(3);
  if (slurm == nullptr) return;
  const TempDir dir;
  const auto fails = [&](const std::vector<std::string>& command, int code, const std::string& words) {
    const Ended end = run_job(*slurm, dir, command);
    INFO(end.output);
    CHECK(end.code == code);
    CHECK(contains(end.output, words));
    CHECK(slurm->all_quiet(kHostsQuietSeconds));
  };
  const std::vector<std::string> job = command_line(job_of(*slurm), kShort);
  fails(command_line("salloc -N 2 -n 2", job), 3,
        "was submitted with 2 tasks, but this job has 5 processes (servers and workers): request -n 5");
  // A node that the allocation does not have.
  fails(command_line("salloc -N 2 env SLURM_JOB_NODELIST=node[1-3]", job), 3,
        "has no agent, because srun ended with code 1: srun: error: ");
}

TEST_CASE("a Slurm whose munge has stopped ends a job with an error that names the command", "[slurm-munge][long]") {
  const auto slurm = make_or_skip<Slurm>(3);
  if (slurm == nullptr) return;
  const TempDir dir;
  Process allocation({"salloc", "-N", "2", "sleep", "1000"}, slurm->options(dir.path()));
  REQUIRE(allocation.wait_for_output("Granted job allocation", kHostsStartSeconds));
  slurm->stop_munge();
  ProcessOptions options = slurm->options(dir.path());
  options.environment.insert(options.environment.end(),
                             {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=node[1-2]", "SLURM_JOB_NUM_NODES=2"});
  options.deadline_s = kHostsJobSeconds;
  const Ended end = run(command_line(job_of(*slurm), kShort), options);
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, "'scontrol show config' did not end within 30 s"));
  CHECK(slurm->processes().empty());
}
