// How a job starts, and how a start fails. The processes are started by hand, with flags or environment variables.

#include <memory>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/held_port.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kJobSeconds = 60;
constexpr double kRefusalSeconds =
    15;  // a refusal waits for nothing; starting a process on a busy host takes about a second

// A job that ends by itself.
std::vector<std::string> short_training() {
  std::vector<std::string> flags = endless_training();
  for (const char* word : {"--num-epochs", "1", "--num-batches", "5", "--save-period", "1"}) flags.emplace_back(word);
  return flags;
}

void check_finishes(LoopbackJob& job) {
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  CHECK(job.codes("scheduler") == "0");
  CHECK(job.codes("server") == "0");
}

// Waits only for the refused process; the job goes on.
Ended refused(LoopbackJob::Member& member) {
  return member.process->wait(kRefusalSeconds);
}

}  // namespace

TEST_CASE("processes that are started by hand find each other and train to the end", "[start]") {
  LoopbackJob job({.flags = short_training()});
  check_finishes(job);
  CHECK(job.codes("worker") == "0");
  CHECK(checkpoint_count(job.run_dir()) == 1);
  CHECK(broken_files(job.run_dir()).empty());
}

// Sets only the variables that dmlc's tracker sets: role, addresses and numbers of processes come from them. The
// scheduler prints no lines for a launcher, but how the job goes.
TEST_CASE("processes read role, scheduler and counts from DMLC variables", "[start]") {
  const TempDir dir;
  const HeldPort port;
  std::vector<std::string> command = {dtrain_program(), "--run-dir", dir.path("run")};
  for (const std::string& flag : short_training()) command.push_back(flag);
  const auto start = [&](const std::string& role) {
    return std::make_unique<Process>(
        command, ProcessOptions{
                     .directory = dir.path(),
                     .environment = {"DTRAIN_TOKEN=0123456789abcdef0123456789abcdef", "DMLC_ROLE=" + role,
                                     "DMLC_PS_ROOT_URI=127.0.0.1", "DMLC_PS_ROOT_PORT=" + std::to_string(port.number()),
                                     "DMLC_NUM_WORKER=2", "DMLC_NUM_SERVER=1", "DMLC_NODE_HOST=127.0.0.1"}});
  };
  std::vector<std::unique_ptr<Process>> processes;
  for (const char* role : {"worker", "server", "scheduler", "worker"}) processes.push_back(start(role));
  for (const auto& process : processes) {
    const Ended end = process->wait(kJobSeconds);
    INFO(end.output);
    CHECK(end.code == 0);
    CHECK_FALSE(contains(end.output, "live step="));
    CHECK_FALSE(contains(end.output, "finding {"));
    if (process == processes[2]) CHECK(contains(end.output, "\nepoch 1/1  step "));
  }
}

TEST_CASE("a process with a wrong token is refused and the job continues", "[start]") {
  LoopbackJob job({.workers = 2, .servers = 1, .flags = short_training(), .start_all = false});
  const Ended end = refused(job.start("worker", 1, {}, "ffffffffffffffffffffffffffffffff"));
  INFO(end.output);
  CHECK(end.code == 6);
  CHECK(contains(end.output, "token"));
  job.start("server", 0);
  job.start("worker", 0);
  job.start("worker", 1);
  check_finishes(job);
  CHECK(job.codes("worker") == "6 0 0");
}

TEST_CASE("the second of two workers with the same rank is refused", "[start]") {
  LoopbackJob job({.workers = 2, .servers = 1, .flags = short_training(), .start_all = false});
  job.start("server", 0);
  LoopbackJob::Member& first = job.start("worker", 0, {"--verbose", "1"});
  LoopbackJob::Member& second = job.start("worker", 0);
  // Either of the two may be the one that joins second.
  for (double waited = 0; first.process->running() && second.process->running() && waited < kRefusalSeconds;) {
    job.run_for(0.1);
    waited += 0.1;
  }
  LoopbackJob::Member& loser = first.process->running() ? second : first;
  const Ended end = refused(loser);
  INFO(end.output);
  CHECK(end.code == 2);
  CHECK(contains(end.output, "another process has already joined"));
  CHECK(contains(end.output, "worker 0"));
  job.start("worker", 1);
  check_finishes(job);
}

// Only the scheduler has the files.
TEST_CASE("groups and shares come from the scheduler's files", "[start]") {
  const TempDir dir;
  REQUIRE(write_file_atomic(dir.path("groups"), "#1\n127.0.0.1 127.0.0.1\n"));
  REQUIRE(write_file_atomic(dir.path("data_sharding"), "0 0.5\n0.5 0.8\n0.8 1\n"));
  std::vector<std::string> flags = short_training();
  for (const char* word : {"--kv-store", "dist_gsync", "--data-allocator", "1"}) flags.emplace_back(word);
  LoopbackJob job(
      {.workers = 3,
       .servers = 1,
       .flags = flags,
       .scheduler_flags = {"--groups-file", dir.path("groups"), "--data-sharding-file", dir.path("data_sharding")}});
  check_finishes(job);
  CHECK(job.codes("worker") == "0");
  CHECK(contains(job.output(), "workers 2 "));  // its share is smaller than that of worker 0, in the same group
  const Result<job::JobSpec> spec = job::read_job_spec(job.run_dir());
  REQUIRE(spec);
  CHECK(spec->groups == std::vector<int64_t>{1, 0, 1});
  const int64_t records = spec->records_train;
  CHECK(spec->shares ==
        std::vector<job::Interval>{{0, records / 2}, {records / 2, records * 8 / 10}, {records * 8 / 10, records}});
  CHECK(spec->batches[0] == spec->batches[2]);
  CHECK(spec->batches[1] < spec->batches[0]);
}

TEST_CASE("an unknown group member ends the start of all processes", "[start]") {
  const TempDir dir;
  REQUIRE(write_file_atomic(dir.path("groups"), "#0\nnode9\n"));
  std::vector<std::string> flags = short_training();
  for (const char* word : {"--kv-store", "dist_gsync"}) flags.emplace_back(word);
  LoopbackJob job({.flags = flags, .scheduler_flags = {"--groups-file", dir.path("groups")}});
  const bool ended = job.await_end(kRefusalSeconds);
  INFO(job.output());
  REQUIRE(ended);
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "2");
  CHECK(contains(job.output(), "groups:2: no worker runs on 'node9'"));
}

TEST_CASE("a worker with other flags than the job is refused with the flags that differ", "[start]") {
  LoopbackJob job({.workers = 1, .servers = 1, .flags = short_training(), .start_all = false});
  const Ended end = refused(job.start("worker", 0, {"--batch-size", "16", "--lr", "0.5"}));
  INFO(end.output);
  CHECK(end.code == 2);
  CHECK(contains(end.output, "batch-size"));
  CHECK(contains(end.output, "lr"));
  CHECK_FALSE(contains(end.output, "num-epochs ("));
}

TEST_CASE("a worker gives up on an absent scheduler at the time limit and names its address", "[start]") {
  const TempDir dir;
  const HeldPort port;  // connections to it are refused
  const std::string address = "127.0.0.1:" + std::to_string(port.number());
  std::vector<std::string> command = {dtrain_program(), "--role",       "worker", "-n", "1", "-s", "1",
                                      "--run-dir",      dir.path("run")};
  for (const std::string& flag : endless_training()) command.push_back(flag);
  for (const std::string& word :
       {std::string("--scheduler"), address, std::string("--start-timeout"), std::string("2")}) {
    command.push_back(word);
  }
  const Ended end = run(command, {.deadline_s = kRefusalSeconds, .directory = {}, .environment = {"DTRAIN_TOKEN=00"}});
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, address));
}

TEST_CASE("a job ends at the startup limit and names the processes that have not joined", "[start]") {
  std::vector<std::string> flags = short_training();
  for (const char* word : {"--start-timeout", "3"}) flags.emplace_back(word);
  LoopbackJob job({.workers = 2, .servers = 1, .flags = flags, .start_all = false});
  job.start("server", 0);
  job.start("worker", 0);
  const bool ended = job.await_end(kRefusalSeconds);
  INFO(job.output());
  REQUIRE(ended);
  CHECK(job.codes("scheduler") == "3");
  CHECK(job.codes("server") == "3");
  CHECK(job.codes("worker") == "3");
  CHECK(contains(job.member("scheduler").process->output(), "worker 1"));
  CHECK(contains(job.member("worker").process->output(), "worker 1"));
}

TEST_CASE("a scheduler ends with an error if its port is in use", "[start]") {
  LoopbackJob job({.workers = 1, .servers = 1, .flags = short_training(), .start_all = false});
  const std::string port = std::to_string(port_of(job.address()));
  const Ended end = refused(job.start("scheduler", 0, {"--port", port}));
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, port));
  CHECK(contains(end.output, "another process uses it"));
}

TEST_CASE("a scheduler without a token refuses to listen beyond loopback and names the remedies", "[start]") {
  const TempDir dir;
  std::vector<std::string> command = {dtrain_program(), "--role",        "scheduler", "-n",     "1", "-s", "1",
                                      "--run-dir",      dir.path("run"), "--bind",    "0.0.0.0"};
  for (const std::string& flag : short_training()) command.push_back(flag);
  const Ended end = run(command, {.deadline_s = kRefusalSeconds, .directory = {}, .environment = {"DTRAIN_TOKEN"}});
  INFO(end.output);
  CHECK(end.code == 6);
  for (const char* way : {"--token-file", "DTRAIN_TOKEN", "--insecure"}) CHECK(contains(end.output, way));
}

// The launcher reads this line, to know how long a job needs to stop.
TEST_CASE("the scheduler reports how long the job's checkpoints take", "[start]") {
  LoopbackJob job({.workers = 1, .servers = 1, .flags = endless_training()});
  const auto reported = [&] {
    const std::string output = job.member("scheduler").process->output();
    const size_t at = output.rfind(" checkpoint_s=");
    return at == std::string::npos ? 0.0 : std::atof(output.c_str() + at + std::string(" checkpoint_s=").size());
  };
  for (double waited = 0; reported() <= 0 && waited < kJobSeconds; waited += 0.2) job.run_for(0.2);
  INFO(job.output());
  CHECK(reported() > 0);
}
