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

// Where the job's processes run.
struct Places {
  std::optional<job::HostAssignment> hosts = {};     // nullopt: all on this machine
  std::optional<launch::AgentStarter> starter = {};  // nullopt: ssh reaches the hosts
};
// Assigns the job's processes to the hosts of its host file, or to those of the cluster that --launcher names. If the
// file is missing and `missing` is given, all processes are on a host named "HOST".
Result<Places> places_of(const Call& call, const job::Flags& flags, Missing missing = nullptr);

struct StartSetting {
  std::vector<std::string> arguments;  // of every process, before its role; begins with the sub-command unless train
  const job::Flags& flags;             // of the processes
  Places places;
  std::string run_dir;
  Missing missing = nullptr;
};

struct JobToStart {
  launch::Job processes;
  std::string run_dir;
};

Result<JobToStart> job_to_start(const Call& call, StartSetting setting);

}  // namespace dtrain::cmd
