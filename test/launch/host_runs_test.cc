// Commands on the hosts of a job, for a tool that asks the hosts something.
#include "launch/host_runs.h"

#include "launch/supervised.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;
using dtrain::test::must;

namespace {

Job job_without_processes(const TempDir& dir) {
  Job job;
  job.name = "question";
  job.record_root = dir.path("records");
  job.limits.stop = 1s;
  return job;
}

Command on(size_t host_number, const std::string& script) {
  Command command{.role = "question", .arguments = {"/bin/sh", "-c", script}};
  command.host_number = host_number;
  return command;
}

}  // namespace

TEST_CASE("commands on hosts give their output and status", "[launch]") {
  const TempDir dir;
  const auto runs = must(HostRuns::create(job_without_processes(dir), ""));
  const size_t a = must(runs->start(on(0, "echo out; echo err >&2; exit 3")));
  const size_t b = must(runs->start(on(0, "echo ready; sleep 1000")));
  must(runs->wait({a}, Clock::now() + kPatience));
  CHECK(runs->ended(a));
  CHECK(runs->run(a).ended_with(3));
  CHECK(runs->run(a).output == std::vector<std::string>{"out"});
  CHECK(runs->run(a).errors == std::vector<std::string>{"err"});
  const auto ready = [](const proc::Finished& run) { return !run.output.empty(); };
  must(runs->wait({a, b}, Clock::now() + kPatience, ready));
  CHECK(runs->run(b).output == std::vector<std::string>{"ready"});
  CHECK(!runs->ended(b));
  const auto before = Clock::now();
  must(runs->wait({b}, before + 50ms));  // returns when the time is up
  CHECK(!runs->ended(b));
}

// The shell in place of ssh ends as ssh does if a host cannot be reached.
TEST_CASE("a host that is lost ends what was to run there, and only that", "[launch]") {
  const TempDir dir;
  Job job = job_without_processes(dir);
  job.other_hosts.push_back({.name = "node1", .ssh = {"/bin/sh", "-c", "echo no route >&2; exit 255"}});
  const auto runs = must(HostRuns::create(job, ""));
  const size_t there = must(runs->start(on(1, "echo never")));
  const size_t here = must(runs->start(on(0, "echo here")));
  must(runs->wait({there, here}, Clock::now() + kPatience));
  REQUIRE(runs->lost(1));
  CHECK(contains(runs->lost(1)->message, "node1 cannot be reached by ssh: no route"));
  CHECK(!runs->lost(0));
  CHECK(runs->run(here).ended_with(0));
  CHECK(runs->run(there).status == -1);
  const size_t later = must(runs->start(on(1, "echo never")));
  CHECK(runs->ended(later));
}
