// Turns a user's command into a job of a batch system: the file that each system needs, and the submission of a job
// that the launcher follows.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cluster/batch_request.h"
#include "cluster/batch_system.h"
#include "cluster/kubernetes.h"

namespace dtrain::cluster {

// The file with which `system`, one of job::kBatchSystems, runs the job.
Result<std::string> batch_file(std::string_view system, const UserCommand& command);

// `suffix`: makes the names of two jobs without --jobname different.
Result<KubernetesJob> kubernetes_job(const UserCommand& command, const std::string& suffix);

// True if the job must be submitted: --launcher names a batch system, and this process is not running on the system's
// nodes.
bool is_submitted(const job::Flags& flags, const job::Environment& environment);

struct Submission {
  BatchRequest request;
  std::string script;       // the text of the script to submit
  std::string script_file;  // path in the run directory where `system` expects it
  std::unique_ptr<BatchSystem> system = {};
};
// For --launcher slurm and sge. `run_dir` and the prefix of the checkpoints must be absolute.
Result<Submission> submission_of(const UserCommand& command, const std::string& run_dir,
                                 const std::string& checkpoints);

}  // namespace dtrain::cluster
