// What a launcher starts: this executable in all the roles of a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "job/host_file.h"
#include "launch/make_job.h"

namespace dtrain::cmd {

struct StartSetting {
  std::vector<std::string> arguments;  // of every process, before its role; the sub-command first, if it is not train
  const job::Flags& flags;             // of the processes
  std::optional<job::Seating> hosts;   // of the host file
  std::string run_dir;
};

struct JobToStart {
  launch::Job processes;
  std::string run_dir;
};

Result<JobToStart> job_to_start(const Call& call, StartSetting setting);

}  // namespace dtrain::cmd
