#include "launch/hosts.h"

#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/file.h"
#include "job/process/build_id.h"
#include "launch/local_host.h"
#include "launch/remote_host.h"
#include "launch/run_all.h"
#include "launch/ssh_link.h"

namespace dtrain::launch {
namespace {

// Why a copy failed: what it printed, or else how it ended.
std::string complaint(const Finished& copy) {
  if (!copy.errors.empty()) return fmt::format("{}", fmt::join(copy.errors, "; "));
  if (WIFSIGNALED(copy.status)) return fmt::format("it was killed by signal {}", WTERMSIG(copy.status));
  return fmt::format("it ended with code {}", WEXITSTATUS(copy.status));
}

}  // namespace

Result<RunDirMark> RunDirMark::create(const Job& job) {
  RunDirMark mark(job.run_dir + "/.launcher-" + job.name);
  DT_TRY_VOID(make_directories(job.run_dir), "creating the run directory");
  DT_TRY_VOID(write_file_atomic(mark.path_, ""));
  return mark;
}

RunDirMark::RunDirMark(RunDirMark&& other) noexcept : path_(std::exchange(other.path_, "")) {}

RunDirMark::~RunDirMark() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<> copy_directory(const Job& job, Screen& screen, SignalQueue& signals) {
  std::vector<Command> commands;
  std::vector<std::string> hosts;
  for (const Machine& machine : job.machines) {
    if (machine.copy.empty()) continue;
    commands.push_back({.role = "copy", .rank = static_cast<int>(commands.size()), .arguments = machine.copy});
    hosts.push_back(machine.name);
  }
  if (commands.empty()) return {};
  screen.line(fmt::format("dtrain: copying the current directory to {} hosts", commands.size()));
  std::optional<size_t> failed;
  const auto goes_on = [&failed](size_t i, const Finished& copy) {
    if (!failed && !copy.ended_with(0)) failed = i;
    return !failed;
  };
  const RunAllOptions options{.host = {job.name, job.record_root, job.limits.kill_after}, .goes_on = goes_on};
  DT_TRY(const std::vector<Finished> copies, run_all(commands, options, signals), "copying the current directory");
  if (!failed) return {};
  return fail(Code::kStartup, "--sync-dst-dir: copying to {} failed: {}", hosts[*failed], complaint(copies[*failed]));
}

int64_t descriptors_of(const Job& job) {
  constexpr int64_t kOther = 32, kOfSsh = 3, kOfAgent = 1, kOfProcessHere = 2, kOfProcessThere = 1;
  int64_t count = kOther + std::ssize(job.machines) * (job.group ? kOfAgent : kOfSsh);
  for (const Command& command : job.others(job.scheduler_address)) {
    count += command.machine == 0 ? kOfProcessHere : kOfProcessThere;
  }
  return count;
}

Result<std::vector<std::unique_ptr<Host>>> make_hosts(const Job& job, const std::string& mark) {
  std::vector<std::unique_ptr<Host>> hosts;
  DT_TRY(auto here, LocalHost::create({job.name, job.record_root, job.limits.stop}));
  hosts.push_back(std::move(here));
  std::unique_ptr<AgentGroup> group;
  if (job.group) {
    DT_TRY(group, AgentGroup::create(*job.group));
  }
  const auto gate = std::make_shared<ConnectGate>();
  for (const Machine& machine : job.machines) {
    std::unique_ptr<AgentLink> link;
    if (group) {
      link = group->link(hosts.size() - 1);
    } else {
      DT_TRY(link, SshLink::create(machine, gate));
    }
    hosts.push_back(std::make_unique<RemoteHost>(RemoteHostOptions{.name = machine.name,
                                                                   .job = job.name,
                                                                   .kill_after = job.limits.stop,
                                                                   .greet = job.limits.greet,
                                                                   .mark = mark,
                                                                   .build_id = std::string(job::build_id()),
                                                                   .allow_mixed_builds = job.allow_mixed_builds},
                                                 std::move(link)));
  }
  if (group) hosts.push_back(std::move(group));
  return hosts;
}

}  // namespace dtrain::launch
