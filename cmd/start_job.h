// What a launcher starts: this executable in all the roles of a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "job/host_file.h"
#include "launch/make_job.h"

namespace dtrain::cmd {

// Where --dry-run notes what this machine lacks and a job would need. Null: what is missing is an error.
using Missing = std::vector<std::string>*;

// The seats of the job's host file; nothing without one. For a file that is missing all seats are on a host "HOST".
Result<std::optional<job::Seating>> seats_of(const job::Flags& flags, Missing missing = nullptr);

struct StartSetting {
  std::vector<std::string> arguments;  // of every process, before its role; the sub-command first, if it is not train
  const job::Flags& flags;             // of the processes
  std::optional<job::Seating> hosts;   // of the host file
  std::string run_dir;
  Missing missing = nullptr;
};

struct JobToStart {
  launch::Job processes;
  std::string run_dir;
};

Result<JobToStart> job_to_start(const Call& call, StartSetting setting);

}  // namespace dtrain::cmd
