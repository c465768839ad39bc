// Finds the scheduler of a running job, for `dtrain leave` and `dtrain join`.
#pragma once

#include <string>
#include <vector>

#include "job/flags/flags.h"
#include "tool.h"

namespace dtrain::cmd {

// Rows for a tool's table of flags, which set the member `launch` (job::LaunchFlags) of `Options`.
template <class Options>
std::vector<job::FlagRow<Options>> scheduler_rows() {
  auto scheduler =
      training_row<Options>("scheduler", DT_FIELD(Options, launch.scheduler), "found by the job's launcher");
  scheduler.help = "address of the job's scheduler; not needed on the host of the job's launcher";
  return {
      std::move(scheduler),
      training_row<Options>("token-file", DT_FIELD(Options, launch.token_file), "environment variable DTRAIN_TOKEN"),
      training_row<Options>("tls-cert", DT_FIELD(Options, launch.tls_cert, "none")),
      training_row<Options>("tls-key", DT_FIELD(Options, launch.tls_key, "none")),
      training_row<Options>("tls-ca", DT_FIELD(Options, launch.tls_ca, "none")),
      training_row<Options>("allow-mixed-builds", DT_FIELD(Options, launch.allow_mixed_builds)),
  };
}

// Completes the address and the token of the scheduler. `job`: the name of a job that a launcher on this host has
// recorded; empty: the only one, unless the flags name a scheduler. `usage`: how to name a job, for messages.
// Code::kUsage if there is no such job, or if there are several.
Result<> find_scheduler(const Call& call, const std::string& job, const std::string& usage, job::LaunchFlags& launch);

}  // namespace dtrain::cmd
