// `dtrain --launcher print` and `--launcher kubernetes`: the files with which a cluster runs a job.
#pragma once

#include <string>

#include "command.h"
#include "launch/cluster/sge_script.h"

namespace dtrain::cmd {

// Prints the file of each system that --print-for names; that of a single one is all that is printed.
Result<int> print_files(const Call& call, const job::Flags& flags);

// The file by which `system` runs the job: "slurm", "sge", "yarn" or "kubernetes".
Result<std::string> cluster_file(const std::string& system, const Call& call, const job::Flags& flags);

// Runs the job by kubectl and returns its exit code.
Result<int> run_in_kubernetes(const Call& call, const job::Flags& flags);

// The job that Grid Engine gets. `run_dir`: absolute, or empty: the job makes one.
Result<launch::SgeJob> sge_job_of(const Call& call, const job::Flags& flags, const std::string& run_dir);

// Not for users: submits a service to YARN, follows and destroys it, beside the launcher whose agents it starts.
Result<int> launch_service(const Call& call);

}  // namespace dtrain::cmd
