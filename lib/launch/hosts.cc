#include "launch/hosts.h"

#include <unistd.h>

#include <utility>

#include "base/file.h"
#include "job/process/build_id.h"
#include "launch/local_host.h"
#include "launch/remote_host.h"
#include "launch/ssh_link.h"

namespace dtrain::launch {

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

int64_t descriptors_of(const Job& job) {
  constexpr int64_t kOther = 32, kOfSsh = 3, kOfAgent = 1, kOfProcessHere = 2, kOfProcessThere = 1;
  int64_t count = kOther + std::ssize(job.other_hosts) * (job.group ? kOfAgent : kOfSsh);
  for (const Command& command : job.others(job.scheduler_address)) {
    count += command.host_number == 0 ? kOfProcessHere : kOfProcessThere;
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
  for (const OtherHost& other : job.other_hosts) {
    std::unique_ptr<AgentLink> link;
    if (group) {
      link = group->link(hosts.size() - 1);
    } else {
      DT_TRY(link, SshLink::create(other, gate));
    }
    hosts.push_back(std::make_unique<RemoteHost>(RemoteHostOptions{.name = other.name,
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
