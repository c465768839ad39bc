#include "launch/local.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;

namespace {

job::Flags two_by_one() {
  job::Flags flags;
  flags.job.num_workers = 2;
  flags.job.num_servers = 1;
  return flags;
}

LocalJob job_with(const job::Flags& flags, const std::string& token = "secret",
                  std::optional<job::Seating> hosts = std::nullopt) {
  return local_job({.executable = "/opt/dtrain",
                    .arguments = {"-n", "2", "-s", "1", "--network", "lenet"},
                    .flags = flags,
                    .host = "node",
                    .hosts = std::move(hosts),
                    .run_dir = "runs/x",
                    .token = token,
                    .runtime_directory = ""});
}

bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

}  // namespace

TEST_CASE("a local job is the user's own command line with a role behind it", "[launch]") {
  const job::Flags flags = two_by_one();
  const LocalJob job = job_with(flags);
  CHECK(shell_line(job.scheduler.arguments) ==
        "/opt/dtrain -n 2 -s 1 --network lenet --role scheduler --rank 0 --run-dir runs/x --advertise 127.0.0.1");
  const std::vector<Command> others = job.others("127.0.0.1:4711");
  REQUIRE(others.size() == 3);
  CHECK(others[0].name() == "server 0");
  CHECK(others[1].name() == "worker 0");
  CHECK(shell_line(others[2].arguments) ==
        "/opt/dtrain -n 2 -s 1 --network lenet --role worker --rank 1 --run-dir runs/x --advertise 127.0.0.1 "
        "--scheduler 127.0.0.1:4711");
}

TEST_CASE("processes have the hosts and GPUs of the host file", "[launch]") {
  job::Flags flags = two_by_one();
  const job::Seating hosts{.servers = {{"c"}}, .workers = {{"a", {0, 1}}, {"b"}}};
  const std::vector<Command> local = job_with(flags, "secret", hosts).others("127.0.0.1:4711");
  CHECK(local[0].host == "c");
  CHECK(local[1].host == "a");
  CHECK(local[2].host == "b");
  CHECK_THAT(shell_line(local[1].arguments), Catch::Contains("--gpus 0,1 --advertise 127.0.0.1"));
  CHECK(shell_line(local[2].arguments).find("--gpus") == std::string::npos);
  // On other hosts nobody is reached over loopback.
  flags.launch.launcher = "ssh";
  const LocalJob remote = job_with(flags, "secret", hosts);
  CHECK(remote.scheduler.host == "node");
  CHECK(dry_run_table(remote).find("127.0.0.1") == std::string::npos);
}

TEST_CASE("the children find in the environment what a tracker would have put there", "[launch]") {
  const job::Flags flags = two_by_one();
  const std::vector<Command> others = job_with(flags).others("[::1]:4711");
  for (const char* entry : {"DMLC_ROLE=worker", "DMLC_NUM_WORKER=2", "DMLC_NUM_SERVER=1", "DMLC_PS_ROOT_URI=[::1]",
                            "DMLC_PS_ROOT_PORT=4711", "DMLC_TASK_ID=1", "DMLC_WORKER_ID=1", "DMLC_JOB_CLUSTER=local"}) {
    INFO(entry);
    CHECK(has(others[2].environment, entry));
  }
  CHECK(has(others[0].environment, "DMLC_SERVER_ID=0"));
  CHECK(has(others[0].environment, "DMLC_TASK_ID=2"));  // tasks count workers first
}

TEST_CASE("the token is in every environment, in no command line and not in the table", "[launch]") {
  const job::Flags flags = two_by_one();
  const LocalJob given = job_with(flags);
  CHECK(has(given.scheduler.environment, "DTRAIN_TOKEN=secret"));
  CHECK(has(given.others("h:1")[1].environment, "DTRAIN_TOKEN=secret"));
  CHECK(dry_run_table(given).find("secret") == std::string::npos);

  const LocalJob drawn = job_with(flags, "");
  const std::string token = drawn.scheduler.environment[0];
  CHECK(token.size() == std::string("DTRAIN_TOKEN=").size() + 32);
  CHECK(drawn.others("h:1")[1].environment[0] == token);
  CHECK(job_with(flags, "").scheduler.environment[0] != token);
}

TEST_CASE("addresses that the user gave are kept, and --port is the scheduler's alone", "[launch]") {
  job::Flags flags = two_by_one();
  flags.launch.port = 9091;
  flags.launch.advertise = "10.0.0.1";
  const LocalJob job = job_with(flags);
  CHECK_FALSE(has(job.scheduler.arguments, "127.0.0.1"));
  CHECK_FALSE(has(job.scheduler.arguments, "--port"));
  const std::vector<std::string> worker = job.others("10.0.0.1:9091")[1].arguments;
  REQUIRE(worker.size() > 2);
  CHECK(std::vector<std::string>(worker.end() - 2, worker.end()) == std::vector<std::string>{"--port", "0"});
}

TEST_CASE("the limits of the launcher leave the roles the time that they take to notice", "[launch]") {
  const job::Flags flags = two_by_one();
  const Limits limits = job_with(flags).limits;
  CHECK(limits.start == std::chrono::seconds(300));
  CHECK(limits.settle > std::chrono::seconds(12));
  CHECK(limits.settle_scheduler > std::chrono::seconds(42));
  CHECK(limits.kill_after == std::chrono::seconds(10));
}

TEST_CASE("--dry-run shows a line a process, the address still open", "[launch]") {
  const job::Flags flags = two_by_one();
  const std::string table = dry_run_table(job_with(flags));
  CHECK(std::count(table.begin(), table.end(), '\n') == 5);
  CHECK(table.find("--role worker --rank 1 --run-dir runs/x --advertise 127.0.0.1 --scheduler HOST:PORT") !=
        std::string::npos);
}

TEST_CASE("the running executable and host are known", "[launch]") {
  CHECK(this_executable().value().ends_with("launch_test"));
  CHECK_FALSE(this_host().empty());
  CHECK(this_host().find('.') == std::string::npos);
}
