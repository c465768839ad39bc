// Jobs that a batch system runs: `dtrain --launcher slurm` or sge outside of an allocation, and --launcher kubernetes;
// also --launcher print, which only prints a job's files.
#pragma once

#include <optional>
#include <string>

#include "cluster/batch_request.h"
#include "command.h"
#include "role/process/resume.h"
#include "start_job.h"

namespace dtrain::cmd {

// The user's command, as it was given in the current directory.
Result<cluster::UserCommand> command_of(const Call& call, const job::Flags& flags);

// Prints the file for each system that --launcher print=NAME,... names. If there is only one system, prints nothing but
// its file.
Result<int> print_files(const Call& call, const job::Flags& flags);

// Runs the job with kubectl and returns its exit code.
Result<int> run_in_kubernetes(const Call& call, const job::Flags& flags);

// Submits the job, follows it and returns its exit code. `resumed`: the run that the job continues, if any.
Result<int> submit_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed);

// Placeholders for the nodes of a job: their number is known, but their names are not known yet.
Result<Places> places_to_come(const job::Flags& flags);
// The part of the output of --dry-run that describes the submission.
Result<std::string> submission_text(const Call& call, const job::Flags& flags, const std::string& run_dir);

}  // namespace dtrain::cmd
