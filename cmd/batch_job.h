// Jobs that a batch system runs: `dtrain --launcher slurm` or sge outside of an allocation, kubernetes, and print.
#pragma once

#include <optional>
#include <string>

#include "cluster/batch_request.h"
#include "command.h"
#include "role/process/resume.h"
#include "start_job.h"

namespace dtrain::cmd {

// The user's command, in the current directory.
Result<cluster::UserCommand> command_of(const Call& call, const job::Flags& flags);

// Prints the file of each system that --launcher print=NAME,... names; if it names only one, prints nothing else.
Result<int> print_files(const Call& call, const job::Flags& flags);

// Runs the job with kubectl and returns its exit code.
Result<int> run_in_kubernetes(const Call& call, const job::Flags& flags);

// Submits the job, follows it and returns its exit code. `resumed`: the run that it continues, if any.
Result<int> submit_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed);

// Placeholders for nodes whose number is known but whose names are not.
Result<Places> places_to_come(const job::Flags& flags);
// What --dry-run prints about the submission.
Result<std::string> submission_text(const Call& call, const job::Flags& flags, const std::string& run_dir);

}  // namespace dtrain::cmd
