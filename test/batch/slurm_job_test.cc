// What the commands of Slurm print about a job. The lines are those of Slurm 22.05, shortened.
#include "cluster/slurm_job.h"

#include <csignal>
#include <memory>

#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/text.h"

namespace dtrain::cluster {
namespace {

using dtrain::test::contains;
using dtrain::test::must;

std::string job_line(const std::string& state, const std::string& more = "") {
  return "JobId=12 JobName=a JobState=COMPLETED b UserId=root(0) GroupId=root(0) QOS=(null) JobState=" + state +
         " Dependency=(null) Requeue=1 Restarts=2 ExitCode=0:0 RunTime=00:00:02 TimeLimit=01:00:00 "
         "StartTime=2026-11-25T01:32:42 EndTime=2026-11-25T02:32:29 Partition=debug ReqNodeList=(null) " +
         more + "NumNodes=3";
}

BatchState state_from(const std::string& line) {
  return state_of(must(parse_slurm_job(line)), "3 nodes");
}
Error failure_in(const std::string& state, const std::string& code) {
  std::string line = job_line(state, "NodeList=node[1-3] ");
  line.replace(line.find("ExitCode=0:0"), 12, "ExitCode=" + code);
  const BatchState ended = state_from(line);
  REQUIRE(ended.phase == BatchState::Phase::kEnded);
  REQUIRE(ended.failure.has_value());
  return *ended.failure;
}

std::unique_ptr<BatchSystem> slurm() {
  return slurm_batch({.name = {}, .queue = {}}, {.script = "/r/slurm.sh", .run_dir = "/r"});
}

proc::Finished printed(const std::vector<std::string>& lines) {
  return {.status = 0, .output = lines};
}

}  // namespace

TEST_CASE("a job is read from scontrol's line, whatever its name", "[cluster][batch]") {
  const SlurmJob job = must(parse_slurm_job(job_line("RUNNING Reason=None", "NodeList=node[1-3] ")));
  CHECK(job.state == "RUNNING");
  CHECK(job.partition == "debug");
  CHECK(job.nodes == "node[1-3]");
  CHECK(job.restarts == 2);
  CHECK(parse_slurm_job("").error().code == Code::kNotFound);
  CHECK(parse_slurm_job("No jobs in the system").error().code == Code::kNotFound);
}

TEST_CASE("a waiting job is described by its partition, reason and expected start", "[cluster][batch]") {
  const BatchState waits = state_from(job_line("PENDING Reason=Resources", "NodeList= "));
  CHECK(waits.phase == BatchState::Phase::kWaiting);
  CHECK(waits.text == "waiting in partition debug: Resources, expected to start at 2026-11-25T01:32:42");
  CHECK(waits.queue == "debug");
  CHECK(waits.never.empty());
  CHECK(contains(state_from(job_line("PENDING Reason=JobHeldUser")).advice, "scontrol release"));
  CHECK(contains(state_from(job_line("PENDING Reason=PartitionConfig")).advice, "does not have 3 nodes at present"));
  CHECK(contains(state_from(job_line("PENDING Reason=PartitionTimeLimit")).never,
                 "Slurm will not start the job in partition debug: PartitionTimeLimit. The job requests 3 nodes"));
  CHECK(state_from(job_line("REQUEUED Reason=BeginTime")).phase == BatchState::Phase::kWaiting);
  CHECK(state_from(job_line("CONFIGURING Reason=None")).phase == BatchState::Phase::kWaiting);
  for (const char* state : {"RUNNING", "SUSPENDED"}) {
    CHECK(state_from(job_line(state)).phase == BatchState::Phase::kRunning);
  }
}

// Slurm says so of a job that it puts back into the queue, too.
TEST_CASE("a job of which the last processes end has not ended yet", "[cluster][batch]") {
  CHECK(state_from(job_line("COMPLETING Reason=None", "NodeList=node1 ")).phase == BatchState::Phase::kEnding);
}

TEST_CASE("a job that has ended gives its script's code, or what Slurm says", "[cluster][batch]") {
  CHECK(state_from(job_line("COMPLETED Reason=None")).code == 0);
  CHECK_FALSE(state_from(job_line("COMPLETED Reason=None")).failure.has_value());
  std::string failed = job_line("FAILED Reason=NonZeroExitCode", "NodeList=node1 ");
  failed.replace(failed.find("ExitCode=0:0"), 12, "ExitCode=7:0");
  CHECK(state_from(failed).code == 7);
  CHECK_FALSE(state_from(failed).failure.has_value());

  CHECK(failure_in("NODE_FAIL Reason=NodeDown", "1:0").code == Code::kPeerLost);
  CHECK(failure_in("NODE_FAIL Reason=NodeDown", "1:0").message ==
        "Slurm ended the job: NODE_FAIL (NodeDown), exit code 1:0");
  CHECK(contains(failure_in("TIMEOUT Reason=TimeLimit", "0:15").message, "--time-limit"));
  CHECK(contains(failure_in("OUT_OF_MEMORY Reason=OutOfMemory", "0:125").message, "--worker-memory"));
  CHECK(contains(failure_in("FAILED Reason=RaisedSignal", "0:9").message, "killed by signal 9"));
  const Error launch = failure_in("FAILED Reason=JobLaunchFailure", "0:53");
  CHECK(launch.code == Code::kStartup);
  CHECK(contains(launch.message, "node[1-3] could not start the job's script"));
  // A job that has no nodes has never run.
  CHECK(state_from(job_line("CANCELLED Reason=None", "NodeList=(null) ")).failure->code == Code::kStartup);
}

TEST_CASE("the commands of Slurm for a job", "[cluster][batch]") {
  const auto system = slurm();
  const auto line = [](const std::vector<std::string>& words) { return proc::shell_line(words); };
  CHECK(line(system->submit()) == "sbatch --parsable /r/slurm.sh");
  CHECK(must(system->job_of({"12"})) == "12");
  CHECK(must(system->job_of({"some site's greeting", "12;far"})) == "12;far");
  CHECK(system->job_of({"nothing"}).error().code == Code::kStartup);
  CHECK(line(system->question("12")) == "scontrol --oneliner show job 12");
  CHECK(line(system->question("12;far")) == "scontrol --oneliner --clusters=far show job 12");
  CHECK(line(system->cancel("12")) == "scancel 12");
  CHECK(line(system->signal("12", SIGTERM)) == "scancel --batch --signal=INT 12");
  CHECK(line(system->signal("12", SIGUSR2)) == "scancel --batch --signal=USR2 12");
  CHECK(system->output_file("12;far") == "/r/slurm-12.out");
  CHECK(system->code_file("12") == "/r/slurm-12.state");
  CHECK(output_pattern("/a%b") == "/a%%b/slurm-%j.out");
}

TEST_CASE("the answers of Slurm about a job, its submission and its place in the queue", "[cluster][batch]") {
  const auto system = slurm();
  CHECK(must(system->state_of("12", printed({job_line("RUNNING Reason=None")}))).phase == BatchState::Phase::kRunning);
  const proc::Finished unknown{.status = 1 << 8, .errors = {"slurm_load_jobs error: Invalid job id specified"}};
  CHECK(system->state_of("12", unknown).error().code == Code::kNotFound);
  const proc::Finished silent{.status = 1 << 8,
                              .errors = {"slurm_load_jobs error: Unable to contact slurm controller"}};
  CHECK(system->state_of("12", silent).error().code == Code::kUnavailable);
  CHECK(contains(system->state_of("12", silent).error().message, "Unable to contact slurm controller"));
  const std::vector<std::string> jobs = {"11                  /q/slurm-%j.out      ",
                                         "12                  /r/slurm-%j.out   "};
  CHECK(system->job_in(jobs) == "12");
  CHECK(system->job_in({jobs[0]}) == std::nullopt);
  const BatchState waits{.queue = "debug", .failure = {}};
  CHECK(proc::shell_line(system->queue("12", waits)) ==
        "squeue --noheader --states=PENDING --partition=debug --sort=-p,i --format=%i");
  CHECK(system->position_in({"9", "12", "13"}, "12") == "position 2 of 3");
  CHECK(system->position_in({"9"}, "12").empty());
}

TEST_CASE("what a job asks for is said in words", "[cluster][batch]") {
  BatchRequest request{.name = {}, .queue = {}, .nodes = 3};
  CHECK(asked_of(request) == "3 nodes");
  request.node = {.cores = 4, .memory = 1LL << 30, .gpus = 2};
  request.time_limit = std::chrono::seconds(61);
  CHECK(asked_of(request) == "3 nodes with 4 cores, 1024 MiB of memory, 2 GPUs each for 2 min");
}

}  // namespace dtrain::cluster
