// Builds the processes that a launcher starts: this executable, in all roles of a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "job/process/host_file.h"
#include "launch/make_job.h"

namespace dtrain::cmd {

// Where --dry-run collects what a job needs and this machine lacks. Null: anything missing is an error.
using Missing = std::vector<std::string>*;

// Assigns the job's processes to the hosts of its host file; nullopt if the job has none. If the file is missing and
// `missing` is given, all processes are on a host named "HOST".
Result<std::optional<job::HostAssignment>> assign_hosts_of(const job::Flags& flags, Missing missing = nullptr);

struct StartSetting {
  std::vector<std::string> arguments;  // of every process, before its role; begins with the sub-command unless train
  const job::Flags& flags;             // of the processes
  std::optional<job::HostAssignment> hosts;  // from assign_hosts_of
  std::string run_dir;
  Missing missing = nullptr;
};

struct JobToStart {
  launch::Job processes;
  std::string run_dir;
};

Result<JobToStart> job_to_start(const Call& call, StartSetting setting);

}  // namespace dtrain::cmd
