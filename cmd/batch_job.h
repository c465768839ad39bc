// `dtrain --launcher slurm` or sge outside of an allocation: the job is submitted to the batch system.
#pragma once

#include <optional>
#include <string>

#include "command.h"
#include "role/process/resume.h"
#include "start_job.h"

namespace dtrain::cmd {

// Whether the job has to be submitted: --launcher names a batch system, and this process is not inside its nodes.
bool is_submitted(const Call& call, const job::Flags& flags);

// Submits the job, follows it and returns its exit code. `resumed`: the run that it continues.
Result<int> submit_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed);

// Nodes of which only the number is known.
Result<Places> places_to_come(const job::Flags& flags);
// What --dry-run prints about the submission.
Result<std::string> submission_text(const Call& call, const job::Flags& flags, const std::string& run_dir);

}  // namespace dtrain::cmd
