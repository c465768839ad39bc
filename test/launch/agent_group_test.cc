// Jobs whose agents are all started by one command, as mpirun does it. A script takes the command's place, and all
// hosts are this host. Agents, connections and processes are real.
#include "launch/agent_group.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/poll_until.h"
#include "job/process/build_id.h"
#include "launch/supervised.h"
#include "net/acceptor.h"
#include "net/connecting.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

namespace {

// $1: number of agents, $2: the launcher's address.
constexpr const char* kFakeMpirun = R"(#!/bin/sh
dir=${0%/*}
echo $$ > $dir/mpirun.pid.new && mv $dir/mpirun.pid.new $dir/mpirun.pid
echo $2 > $dir/address.new && mv $dir/address.new $dir/address
[ ! -e $dir/refuses ] || { echo "There are not enough slots available" >&2; exit 213; }
[ ! -e $dir/silent ] || exec sleep 1000
trap 'kill $children; wait; exit 143' TERM
for i in $(seq 0 $(($1 - 1))); do
  OMPI_COMM_WORLD_RANK=$i AGENT_RECORD_ROOT=$dir/there-$i $DTRAIN_AGENT launch-agent --connect $2 &
  children="$children $!"
  echo $! > $dir/agent-$i.pid
done
for child in $children; do wait $child || code=$?; done
exit $code
)";

// Runs the servers and workers of `scripts` alternately on nodes "a" and "b". `agents`: how many are started.
Job group_job(const TempDir& dir, const Scripts& scripts, const Limits& limits, int agents = 2) {
  const std::string program = dir.path("mpirun");
  std::ofstream(program) << kFakeMpirun;
  REQUIRE(::chmod(program.c_str(), 0755) == 0);
  Job job = job_of(dir, scripts, limits);
  job.other_hosts = {{.name = "a"}, {.name = "b"}};
  std::vector<std::string> hosts = {"a", "b"};
  for (int i = 2; i < agents; i++) hosts.push_back("spare" + std::to_string(i));
  job.group = {.tool = "mpirun",
               .command =
                   [=](const std::string& address) {
                     return Command{.arguments = {program, std::to_string(agents), address},
                                    .environment = {"AGENT_BUILD=" + std::string(job::build_id())}};
                   },
               .listen = {.host = "127.0.0.1"},
               .address = "127.0.0.1",
               .hosts = hosts,
               .needed = 2};
  job.run_dir = dir.path("run");
  job.others = [here = job.others](const std::string& address) {
    std::vector<Command> commands = here(address);
    for (size_t i = 0; i < commands.size(); i++) {
      commands[i].host_number = i % 2 + 1;
      commands[i].host = i % 2 == 0 ? "a" : "b";
      commands[i].environment = {"SECRET=hush " + std::to_string(i)};
    }
    return commands;
  };
  return job;
}

std::string await_file(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(path)) REQUIRE(std::chrono::steady_clock::now() < deadline);
  return read_file(path).value();
}

// A process that is known by the file that holds its id.
void kill_process(const std::string& file, int signal) {
  REQUIRE(::kill(std::stoi(await_file(file)), signal) == 0);
}

const std::string kScheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=3 steps=9; ";

}  // namespace

TEST_CASE("agents that one command starts run the processes of their hosts", "[launch][agents]") {
  const TempDir dir;
  const std::string words = "echo \"hello $SECRET ${DTRAIN_AGENT_KEY:-no key}\"; echo on stderr >&2; ";
  const int agents = GENERATE(2, 4);  // two are of hosts that the job does not use
  Launcher launcher(group_job(
      dir, {.scheduler = kScheduler + "await done", .workers = {words, words + "mark done"}, .servers = {"await done"}},
      kPatient, agents));
  CHECK(launcher.wait() == 0);
  const std::string& output = launcher.output();
  INFO(output);
  CHECK(contains(output, "[worker 0 b] hello hush 1 no key\n"));
  CHECK(contains(output, "[worker 1 a] hello hush 2 no key\n"));
  CHECK(contains(output, "[worker 1 a] on stderr\n"));
  CHECK(contains(output, "END 0 of 4\n"));
  CHECK_FALSE(contains(output, "[mpirun]"));
  CHECK(all_gone(dir));
  CHECK(std::filesystem::is_empty(dir.path("run")));  // shared, so the processes write their own logs
}

TEST_CASE("a command that starts no agents fails the start with its own words", "[launch][agents]") {
  const TempDir dir;
  Job job = group_job(dir, {.workers = {Scripts::kObedient, Scripts::kObedient}}, kPatient);
  std::string error;
  SECTION("it refuses") {
    std::ofstream(dir.path("refuses")).put('\n');
    error = "has no agent, because mpirun ended with code 213: There are not enough slots available";
  }
  SECTION("it says nothing") {
    std::ofstream(dir.path("silent")).put('\n');
    job.limits.greet = 2s;
    error = "a did not get an agent from mpirun, which has started 0 of 2, within 2 s";
  }
  SECTION("it does not exist") {
    job.group->command = [](const std::string&) { return Command{.arguments = {"/no/such/mpirun"}}; };
    error = "cannot execute '/no/such/mpirun': No such file or directory\n  while starting the agents with mpirun";
  }
  SECTION("its agents are of another build") {
    job.group->command = [command = job.group->command](const std::string& address) {
      Command other = command(address);
      other.environment = {"AGENT_BUILD=0.0.1-old"};
      return other;
    };
    error = "has build 0.0.1-old of dtrain";
  }
  SECTION("there is no such address to listen on") {
    job.group->listen.host = "192.0.2.1";
    error = "cannot listen for agents at 192.0.2.1";
  }
  Launcher launcher(job);
  const int code = launcher.wait();
  INFO(launcher.output());
  CHECK(code != 0);
  CHECK(contains(launcher.output(), error));
  CHECK(none_left(dir));
}

TEST_CASE("a stranger is refused, and the agents are not kept waiting by one who says nothing", "[launch][agents]") {
  const TempDir dir;
  Job job = group_job(dir, {.scheduler = kScheduler + "await done", .workers = {"echo up; await done"}}, kPatient);
  std::ofstream(dir.path("silent")).put('\n');  // the agents are started by the test, after the strangers
  Launcher launcher(job);
  const std::string address = await_file(dir.path("address"));
  const net::Endpoint endpoint = net::parse_endpoint(address.substr(0, address.find('\n'))).value();
  const UniqueFd silent = net::connect_to(endpoint, 5s).value();
  const UniqueFd stranger = net::connect_to(endpoint, 5s).value();
  const std::string line = to_line({.key = "guess", .number = 0, .host = "a"});
  REQUIRE(::write(stranger.get(), line.data(), line.size()) == std::ssize(line));
  launcher.await("[mpirun] refused a connection from 127.0.0.1: the caller does not know the key of this job's agents");
  const UniqueFd browser = net::connect_to(endpoint, 5s).value();
  REQUIRE(::write(browser.get(), "GET / HTTP/1.1\r\n", 16) == 16);
  launcher.await(
      "[mpirun] refused a connection from 127.0.0.1: the first line of the connection is not that of an agent");
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 75);
  CHECK(none_left(dir));
}

namespace {

// Turns of the group until nothing happens for a while; not more than `most`.
int turns_until_quiet(AgentGroup& group, int most, std::vector<HostEvent>& events) {
  for (int turns = 0; turns < most; turns++) {
    std::vector<pollfd> watched;
    group.watch(watched);
    if (poll_until(watched, Clock::now() + 200ms) == 0) return turns;
    group.take(events);
  }
  return most;
}

}  // namespace

TEST_CASE("a stranger who has sent a part of a line wakes the launcher once", "[launch][agents]") {
  const TempDir dir;
  std::ofstream(dir.path("silent")).put('\n');
  Job job = group_job(dir, {}, kPatient);
  const auto group = dtrain::test::must(AgentGroup::create(*job.group));
  const std::string address = await_file(dir.path("address"));
  const net::Endpoint endpoint = net::parse_endpoint(address.substr(0, address.find('\n'))).value();
  const UniqueFd stranger = net::connect_to(endpoint, 5s).value();
  REQUIRE(::write(stranger.get(), "h", 1) == 1);
  std::vector<HostEvent> events;
  CHECK(turns_until_quiet(*group, 50, events) < 50);
  CHECK(events.empty());
}

TEST_CASE("strangers who say nothing give way to the job's agents, however many they are", "[launch][agents]") {
  const TempDir dir;
  std::ofstream(dir.path("silent")).put('\n');
  Job job = group_job(dir, {}, kPatient);
  job.group->command = [command = job.group->command, &dir](const std::string& address) {
    Command with_key = command(address);
    with_key.arguments = {"sh", "-c", "echo $DTRAIN_AGENT_KEY > $0.new && mv $0.new $0 && exec sleep 1000",
                          dir.path("key")};
    return with_key;
  };
  AgentGroupOptions options = *job.group;
  std::string address;
  options.command = [&](const std::string& where) { return address = where, job.group->command(where); };
  const auto group = dtrain::test::must(AgentGroup::create(options));
  const std::string key = await_file(dir.path("key"));
  const net::Endpoint endpoint = net::parse_endpoint(address).value();
  std::vector<HostEvent> events;
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < net::AcceptorLimits::of_process().waiting_max + 10; i++) {
    strangers.push_back(net::connect_to(endpoint, 5s).value());
    if (i % 10 == 0) group->take(events);
  }
  const UniqueFd agent = net::connect_to(endpoint, 5s).value();
  const std::string line = to_line({.key = key.substr(0, key.find('\n')), .number = 0, .host = "a"});
  REQUIRE(::write(agent.get(), line.data(), line.size()) == std::ssize(line));
  turns_until_quiet(*group, 1000, events);
  pollfd first{.fd = strangers.front().get(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&first, 1, 0) == 1);  // closed
  CHECK(group->link(0)->missing().find("has started 1 of 2") != std::string::npos);
}

TEST_CASE("the processes of a host are lost with its agent, and all with the launcher", "[launch][agents]") {
  const TempDir dir;
  Launcher launcher(group_job(
      dir,
      {.scheduler = kScheduler + Scripts::kObedient, .workers = {Scripts::kObedient, "echo ready; sleep 1000 & wait"}},
      kQuick));
  launcher.await("] ready", 3);
  launcher.await("step 3");
  SECTION("an agent is killed") {
    kill_process(dir.path("agent-1.pid"), SIGKILL);
    CHECK(launcher.wait() == 5);
    INFO(launcher.output());
    CHECK(contains(launcher.output(), "worker 1 was lost with its host"));
    CHECK(contains(launcher.output(), "error [peer lost] the connection to b broke"));
  }
  SECTION("the launcher is killed") {
    launcher.signal(SIGKILL);
    CHECK(launcher.wait() == 128 + SIGKILL);
  }
  SECTION("the command is killed, but its agents stay") {
    kill_process(dir.path("mpirun.pid"), SIGKILL);
    launcher.await("[mpirun] mpirun was killed by signal 9");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 75);
  }
  CHECK(all_gone(dir));
}

TEST_CASE("an interrupt while the agents are being started ends the command", "[launch][agents]") {
  const TempDir dir;
  std::ofstream(dir.path("silent")).put('\n');
  Launcher launcher(group_job(dir, {.workers = {"mark started"}}, kPatient));
  launcher.await("dtrain: job job");
  const int command = std::stoi(await_file(dir.path("mpirun.pid")));
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 75);
  CHECK(::kill(command, 0) == -1);
  CHECK_FALSE(std::filesystem::exists(dir.path("started")));
}
