// Jobs whose agents mpirun starts, on hosts that are network namespaces (hosts.h). Open MPI reaches them by ssh.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

// Null, with a warning that names the cause, if this host has no such mpirun or cannot have hosts. `mpirun`: the
// program's file.
std::unique_ptr<Hosts> hosts_or_skip(const std::string& mpirun) {
  std::string why_not = "no " + mpirun;
  std::unique_ptr<Hosts> hosts;
  if (std::filesystem::exists(mpirun)) hosts = Hosts::make(3, why_not);
  if (hosts == nullptr) WARN("skipped: " << why_not);
  return hosts;
}

constexpr const char* kOpenMpi = "/usr/bin/mpirun.openmpi";
constexpr const char* kMpich = "/usr/bin/mpirun.mpich";

// Makes a directory in which `mpirun` runs the shell's `command`; it goes in front of PATH.
std::string directory_of(const TempDir& dir, const std::string& command) {
  const std::string program = dir.path("mpi/mpirun");
  std::filesystem::create_directories(dir.path("mpi"));
  must(write_file_atomic(program, "#!/bin/sh\n" + command + "\n"));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return dir.path("mpi");
}

ProcessOptions options(const Hosts& hosts, const TempDir& dir, const std::string& mpirun) {
  ProcessOptions options = hosts.options(dir.path());
  for (std::string& variable : options.environment) {
    if (variable.starts_with("PATH=")) variable.insert(5, directory_of(dir, "exec " + mpirun + " \"$@\"") + ":");
  }
  // Open MPI refuses root without these.
  options.environment.insert(options.environment.end(),
                             {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  options.deadline_s = kHostsJobSeconds;
  return options;
}

std::vector<std::string> launch(const Hosts& hosts, const std::vector<std::string>& more) {
  return command_line(dtrain_program(), "-n 3 -s 2 -H", hosts.host_file(), "--launcher mpi",
                      endless_training(Heartbeats::kDefault), "--start-timeout 90 --run-dir run", more);
}

// The mpirun that was started in `dir`; 0 if there is none.
pid_t find_mpirun(const TempDir& dir) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line = read_file(entry.path().string() + "/cmdline").value_or("");
    std::replace(line.begin(), line.end(), '\0', ' ');
    // From version 5 of Open MPI on, mpirun becomes prterun.
    const bool is_mpirun = line.starts_with("/usr/bin/mpirun") || line.starts_with("/usr/bin/prterun");
    if (is_mpirun && contains(line, dir.path())) return std::stoi(name);
  }
  return 0;
}

// Waits until that mpirun has ended, which it does after the last of its agents; returns false when the time is up.
bool mpirun_has_ended(const TempDir& dir) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kHostsQuietSeconds);
  while (find_mpirun(dir) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("mpirun starts the agents of a job, whatever the scheme", "[mpi]") {
  const std::string mpirun = GENERATE(kOpenMpi, kMpich);
  const auto hosts = hosts_or_skip(mpirun);
  if (hosts == nullptr) return;
  const TempDir dir;
  must(write_file_atomic(dir.path("groups"),
                         hosts->address(0) + " " + hosts->address(1) + "\n" + hosts->address(2) + "\n"));
  const std::string store = mpirun == kMpich ? "dist_sync" : GENERATE("dist_sync", "dist_gsync");
  const Ended end = run(launch(*hosts, {"--kv-store", store, "--num-epochs", "1", "--num-batches", "5"}),
                        options(*hosts, dir, mpirun));
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "[worker 0 " + hosts->address(2) + "] "));
  CHECK(contains(end.output, "join role=worker rank=0 host=node3 addr=" + hosts->address(2)));
  CHECK(contains(end.output, "join role=server rank=1 host=node2 addr=" + hosts->address(1)));
  CHECK(std::filesystem::exists(dir.path("run/summary.json")));
  CHECK(hosts->all_quiet(kHostsQuietSeconds));
  CHECK(mpirun_has_ended(dir));
}

TEST_CASE("nothing of a job of mpirun stays behind, whoever ends", "[mpi]") {
  const auto hosts = hosts_or_skip(kOpenMpi);
  if (hosts == nullptr) return;
  const TempDir dir;
  Process launcher(launch(*hosts, {}), options(*hosts, dir, kOpenMpi));
  await_output(launcher, "Time cost=", kHostsStartSeconds);
  int code = 75;
  std::string words;
  SECTION("Ctrl-C") {
    launcher.signal(SIGINT);
    words = "stopped; dtrain --resume run continues from the last checkpoint";
  }
  SECTION("mpirun is killed, and stops its agents") {
    const pid_t mpirun = find_mpirun(dir);
    REQUIRE(mpirun > 0);
    REQUIRE(::kill(mpirun, SIGKILL) == 0);
    words = "[mpirun] mpirun was killed by signal 9";
  }
  SECTION("the agent of a host is killed, and mpirun stops the others") {
    const pid_t agent = hosts->find_process("launch-agent --connect");
    REQUIRE(agent > 0);
    REQUIRE(::kill(agent, SIGKILL) == 0);
    words = "was lost with its host";
    code = 5;
  }
  SECTION("the launcher is killed") {
    launcher.signal(SIGKILL);
    code = -1;
  }
  CHECK(hosts->all_quiet(kHostsQuietSeconds));
  const Ended end = launcher.wait(kHostsQuietSeconds);
  INFO(end.output);
  CHECK(end.code == code);
  CHECK(contains(end.output, words));
  CHECK(mpirun_has_ended(dir));
}

TEST_CASE("a job of mpirun is started again", "[mpi][long]") {
  const std::string mpirun = GENERATE(kOpenMpi, kMpich);
  const auto hosts = hosts_or_skip(mpirun);
  if (hosts == nullptr) return;
  const TempDir dir;
  Process launcher(launch(*hosts, command_line("--max-restarts 1 --num-epochs 20 --save-period 1 --inject step-ms=5")),
                   options(*hosts, dir, mpirun));
  await_output(launcher, "Saved checkpoint", kHostsStartSeconds);
  const pid_t worker = hosts->find_process("--role worker --rank 1");
  REQUIRE(worker > 0);
  REQUIRE(::kill(worker, SIGKILL) == 0);
  const Ended end = launcher.wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "dtrain: the job was restarted once"));
  CHECK(contains(end.output, "worker 1 on " + hosts->address(0) + " was killed by signal 9 (Killed)"));
  CHECK(hosts->all_quiet(kHostsQuietSeconds));
  CHECK(mpirun_has_ended(dir));
}

// As when a node loses power: nobody is told. Heartbeats and the connection to the agent notice it here, and on the
// host the agent notices that the launcher is silent.
TEST_CASE("a host that dies ends a job of mpirun, which names it", "[mpi-cut][long]") {
  const auto hosts = hosts_or_skip(kOpenMpi);
  if (hosts == nullptr) return;
  const TempDir dir;
  Process launcher(launch(*hosts, {}), options(*hosts, dir, kOpenMpi));
  await_output(launcher, "Time cost=", kHostsStartSeconds);
  hosts->cut_off(2);  // it has worker 0 alone
  const Ended end = launcher.wait(kHostsJobSeconds);
  INFO(end.output);
  CHECK(end.code == 5);
  CHECK(contains(end.output, "worker 0"));
  CHECK(contains(end.output, hosts->address(2)));
  const bool quiet = hosts->all_quiet(kHostsJobSeconds);
  INFO(hosts->processes());
  CHECK(quiet);
  CHECK(mpirun_has_ended(dir));
}

TEST_CASE("mpirun's own words say why a job of it cannot start", "[mpi]") {
  const auto hosts = hosts_or_skip(kOpenMpi);
  if (hosts == nullptr) return;
  const TempDir dir;
  ProcessOptions there = options(*hosts, dir, kOpenMpi);
  const std::string nobody = hosts->address(0) + "99";  // in their network, but no host has it
  must(write_file_atomic(dir.path("dead"), hosts->address(0) + "\nno-such-host.invalid\n"));
  must(write_file_atomic(dir.path("user"), hosts->address(0) + " user=alice\n"));
  const auto ends_with = [&](const std::string& file, int code, const std::string& words) {
    const Ended end = run({dtrain_program(), "-n", "1", "-s", "1", "-H", dir.path(file), "--launcher", "mpi",
                           "--network", "mlp", "--benchmark", "1", "--run-dir", "run-" + file},
                          there);
    INFO(end.output);
    CHECK(end.code == code);
    CHECK(contains(end.output, words));
    CHECK(hosts->all_quiet(kHostsQuietSeconds));
  };
  must(write_file_atomic(dir.path("gone"), hosts->address(0) + "\n" + nobody + "\n"));
  must(write_file_atomic(dir.path("bad"), hosts->address(0) + "\n" + hosts->address(1) + " slots=0\n"));
  ends_with("dead", 3, "has no agent, because mpirun ended with code");
  ends_with("gone", 3, "connect to host " + nobody + " port 22: No route to host");
  ends_with("bad", 2, "bad:2: slots: a host needs at least 1 slot");
  ends_with("user", 2, "has a port or a user, but mpirun does not accept them");
  directory_of(dir, "echo mpirun of another kind 1.0");
  ends_with("dead", 3, "mpirun belongs to an MPI implementation that dtrain does not know");
}
