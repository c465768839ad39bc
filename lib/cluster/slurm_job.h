// Slurm, for a batch follower: the commands, and the meaning of their output.
#pragma once

#include <memory>
#include <string>

#include "cluster/batch_request.h"
#include "cluster/batch_system.h"

namespace dtrain::cluster {

// The part of `scontrol --oneliner show job` about a job that is used here.
struct SlurmJob {
  std::string state = {};   // state of the job: "PENDING", "RUNNING", "CANCELLED"
  std::string reason = {};  // why the job waits: "Resources", or "None"
  std::string partition = {};
  std::string nodes = {};  // the job's nodes: "node[1-3]"; empty before the job runs
  std::string start = {};  // when the job started or is expected to start: "2026-11-25T01:32:42"; empty: unknown
  int64_t restarts = 0;
  int code = 0, signal = 0;  // the two numbers that scontrol shows as ExitCode=CODE:SIGNAL
};
// Code::kNotFound: the text does not describe a job.
Result<SlurmJob> parse_slurm_job(const std::string& line);

// `asked`: what the job requests from each node, for advice ("3 nodes with 4 cores each").
BatchState state_of(const SlurmJob& job, const std::string& asked);
std::string asked_of(const BatchRequest& request);

struct SlurmFiles {
  std::string script;   // path of the script to submit
  std::string run_dir;  // absolute path of the run directory, which contains the script and the state of the job
};
// The pattern for the name of the job's output file, which is passed to sbatch_script.
std::string output_pattern(const std::string& run_dir);

std::unique_ptr<BatchSystem> slurm_batch(const BatchRequest& request, const SlurmFiles& files);

}  // namespace dtrain::cluster
