// A job on more hosts than most clusters have. All of them are this host: a script takes the place of ssh. Agents,
// messages and processes are real.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "job/process/build_id.h"
#include "launch/connect_gate.h"
#include "launch/supervised.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

namespace {

constexpr size_t kHosts = 512;
constexpr auto kTeardownMax = 10s;

// Appends a letter to the file `connecting` when it begins, and waits for a file `go` if there is a file `held`.
constexpr const char* kQuietSsh = R"(#!/bin/sh
dir=${0%/*}
printf x >> $dir/connecting
while [ "$1" != -- ]; do shift; done
shift 2
while [ -e $dir/held ] && [ ! -e $dir/go ]; do sleep 0.02; done
exec sh -c "$*"
)";

Job job_on_many_hosts(const TempDir& dir, const std::string& script) {
  const std::string ssh = dir.path("ssh");
  std::ofstream(ssh) << kQuietSsh;
  REQUIRE(::chmod(ssh.c_str(), 0755) == 0);
  const char* agent = std::getenv("DTRAIN_AGENT");
  REQUIRE(agent != nullptr);
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:1; " + Scripts::kObedient,
                    .workers = std::vector<std::string>(kHosts, script)},
                   kPatient);
  for (size_t i = 0; i < kHosts; i++) {
    const std::string name = fmt::format("n{}", i);
    OtherHost other{
        .name = name, .ssh = ssh_command({name}, "exec sh -s"), .executable = agent, .directory = dir.path()};
    other.ssh[0] = ssh;
    other.agent = {"AGENT_BUILD=" + std::string(job::build_id()), "AGENT_RECORD_ROOT=" + dir.path("there-" + name)};
    job.other_hosts.push_back(std::move(other));
  }
  job.run_dir = dir.path("run");
  job.others = [here = job.others](const std::string& address) {
    std::vector<Command> commands = here(address);
    for (size_t i = 0; i < commands.size(); i++) commands[i].host_number = i + 1;
    return commands;
  };
  return job;
}

size_t count_descriptors(pid_t pid) {
  const std::filesystem::directory_iterator all(fmt::format("/proc/{}/fd", pid));
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

size_t count_connecting(const TempDir& dir) {
  return read_file(dir.path("connecting")).value_or("").size();
}

// The limit of open files for this process and those that it starts.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t soft) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit limit{std::min(soft, before_.rlim_max), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  ~OpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;
  [[nodiscard]] rlim_t most() const { return before_.rlim_max; }

 private:
  rlimit before_{};
};

constexpr rlim_t kFilesOfMany = 3 * kHosts + kHosts + 64;  // the streams of ssh, and a log for each process

}  // namespace

TEST_CASE("a job on 512 hosts takes three descriptors per host and ends within seconds", "[.many]") {
  const OpenFiles files(kFilesOfMany);
  if (files.most() < kFilesOfMany) {
    WARN("skipped: this host allows a process fewer than " << kFilesOfMany << " open files");
    return;
  }
  const TempDir dir;
  Launcher launcher(job_on_many_hosts(dir, "trap 'exit 75' TERM; echo up; sleep 1000 & wait"));
  launcher.await("] up", kHosts);
  CHECK(count_descriptors(launcher.pid()) <= 3 * kHosts + 20);
  const auto stop = Clock::now();
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 75);
  CHECK(Clock::now() - stop < kTeardownMax);
  CHECK(all_gone(dir));
}

TEST_CASE("the launcher connects to a bounded number of hosts at the same time", "[launch][remote]") {
  const OpenFiles files(kFilesOfMany);
  const TempDir dir;
  std::ofstream(dir.path("held")).put('\n');
  Job job = job_on_many_hosts(dir, "echo up");
  job.other_hosts.resize(2 * ConnectGate::kAtOnce);
  job.others = [here = job.others](const std::string& address) {
    std::vector<Command> commands = here(address);
    commands.resize(2 * ConnectGate::kAtOnce);
    return commands;
  };
  SECTION("the others connect when these have") {
    Launcher launcher(job);
    launcher.await("dtrain: job job");
    const auto deadline = Clock::now() + kPatience;
    while (count_connecting(dir) < ConnectGate::kAtOnce && Clock::now() < deadline) ::poll(nullptr, 0, 10);
    CHECK(count_connecting(dir) == ConnectGate::kAtOnce);
    std::ofstream(dir.path("go")).put('\n');
    launcher.await("] up", 2 * ConnectGate::kAtOnce);
    launcher.signal(SIGINT);
    launcher.wait();
  }
  SECTION("an interrupt ends the wait") {
    Launcher launcher(job);
    launcher.await("dtrain: job job");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 75);
    CHECK(count_connecting(dir) <= ConnectGate::kAtOnce);
  }
  SECTION("a host that does not answer in time fails the start") {
    job.limits.greet = 2s;
    Launcher launcher(job);
    CHECK(launcher.wait() == 3);
    CHECK(contains(launcher.output(), "did not answer within 2 s"));
  }
  CHECK(none_left(dir));
}

TEST_CASE("a limit of open files that is too low for the job is said before anything starts", "[launch][remote]") {
  const OpenFiles files(kFilesOfMany - 64);
  const TempDir dir;
  Launcher launcher(job_on_many_hosts(dir, "echo up"));
  CHECK(launcher.wait() == 98);
  CHECK(contains(launcher.output(), "error [start-up] the launcher of this job needs up to 2080 open files"));
  CHECK_FALSE(std::filesystem::exists(dir.path("connecting")));
}
