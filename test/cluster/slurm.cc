#include "slurm.h"
#include "base/host_limits.h"

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/must.h"
#include "support/text.h"

namespace dtrain::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kStartSeconds = 60;
constexpr double kCommandSeconds = 20;

constexpr const char* kConfiguration = R"(ClusterName=dtrain
SlurmctldHost={host}({gateway})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/%n.pid
SlurmctldPort={port}
SlurmdPort={port}
{nodes}PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=2 State=UP
)";

// slurmd wants a directory for control groups, although nothing here uses them.
constexpr const char* kControlGroups = R"(CgroupPlugin=cgroup/v1
CgroupMountpoint={dir}/cgroup
)";

}  // namespace

std::unique_ptr<Slurm> Slurm::make(int nodes, std::string& why_not) {
  for (const char* program : {"/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/srun"}) {
    why_not = fmt::format("no {} (packages slurm-wlm and munge)", program);
    if (!std::filesystem::exists(program)) return nullptr;
  }
  std::unique_ptr<Slurm> slurm(new Slurm);
  slurm->hosts_ = Hosts::make(nodes, why_not);
  if (slurm->hosts_ == nullptr) return nullptr;
  slurm->write_configuration();
  return slurm->start(why_not) ? std::move(slurm) : nullptr;
}

void Slurm::write_configuration() const {
  std::string nodes;
  for (int i = 0; i < hosts_->count(); i++) {
    nodes += fmt::format("NodeName=node{0} NodeAddr={1} CPUs=2 State=UNKNOWN\n", i + 1, hosts_->address(i));
    std::filesystem::create_directories(dir_.path(fmt::format("spool/node{}", i + 1)));
  }
  std::filesystem::create_directories(dir_.path("state"));
  std::filesystem::create_directories(dir_.path("cgroup"));
  must(write_file_atomic(
      configuration(),
      fmt::format(fmt::runtime(kConfiguration), fmt::arg("host", host_name()), fmt::arg("gateway", hosts_->gateway()),
                  fmt::arg("dir", dir_.path()), fmt::arg("port", port_.number()), fmt::arg("nodes", nodes))));
  must(write_file_atomic(dir_.path("cgroup.conf"),
                         fmt::format(fmt::runtime(kControlGroups), fmt::arg("dir", dir_.path()))));
  const std::string key = dir_.path("munge.key");
  must(write_file_atomic(key, std::string(64, 'k')));
  std::filesystem::permissions(key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

bool Slurm::start(std::string& why_not) {
  const auto munge = [&](const char* file) { return dir_.path(std::string("munge.") + file); };
  // --force: the directory for temporary files may be writable for all.
  munged_ = std::make_unique<Process>(std::vector<std::string>{
      "/usr/sbin/munged", "--foreground", "--force", "--socket=" + munge("socket"), "--key-file=" + munge("key"),
      "--log-file=" + munge("log"), "--pid-file=" + munge("pid"), "--seed-file=" + munge("seed")});
  const auto deadline = Clock::now() + std::chrono::duration<double>(kStartSeconds);
  while (!std::filesystem::exists(munge("socket"))) {
    why_not = "munged does not start: " + munged_->output();
    if (Clock::now() > deadline || !munged_->running()) return false;
  }
  controller_ = std::make_unique<Process>(std::vector<std::string>{"/usr/sbin/slurmctld", "-D", "-f", configuration()});
  for (int i = 0; i < hosts_->count(); i++) {
    daemons_.push_back(std::make_unique<Process>(
        hosts_->on(i, {"/usr/sbin/slurmd", "-D", "-N", fmt::format("node{}", i + 1), "-f", configuration()})));
  }
  while (!nodes_are_idle()) {
    const bool run = controller_->running() && daemons_.back()->running();
    why_not = "Slurm does not start: " + controller_->output() + daemons_.back()->output();
    if (Clock::now() > deadline || !run) return false;
  }
  return true;
}

bool Slurm::nodes_are_idle() const {
  ProcessOptions here = options("");
  here.deadline_s = kCommandSeconds;
  const Ended end = run({"/usr/bin/sinfo", "--noheader", "--partition=debug", "--format=%T %D"}, here);
  return end.code == 0 && end.output == fmt::format("idle {}\n", hosts_->count());
}

ProcessOptions Slurm::options(const std::string& directory) const {
  ProcessOptions options = hosts_->options(directory);
  options.environment.push_back("SLURM_CONF=" + configuration());
  return options;
}

void Slurm::end_munge() {
  munged_->signal(SIGTERM);
  (void)munged_->wait(kCommandSeconds);
}

std::string Slurm::queue() const {
  ProcessOptions here = options("");
  here.deadline_s = kCommandSeconds;
  return run({"/usr/bin/squeue", "--noheader"}, here).output;
}

std::string Slurm::processes() const {
  std::istringstream lines(hosts_->processes());
  std::string others;
  for (std::string line; std::getline(lines, line);) {
    if (!contains(line, "slurmd") && !contains(line, "slurmstepd")) others += line + "\n";
  }
  return others;
}

bool Slurm::all_quiet(double seconds) const {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (!processes().empty() || !queue().empty()) {
    if (Clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace dtrain::test
