// The script that sbatch submits. Slurm runs it on the job's first node, where it starts a launcher, which starts the
// agents on all nodes with srun.
#pragma once

#include <string>

#include "cluster/batch_request.h"

namespace dtrain::cluster {

// The text of the script, with the options for sbatch. Before the time limit, Slurm sends USR1 to the script. The job
// then writes a checkpoint, and the script puts the job back into the queue if it has made progress. When Slurm starts
// the job again, for that reason or another, the run continues from its latest checkpoint.
//
// `output`: the file for the job's output, in which Slurm replaces the pattern %j by the job's number. If the user
// named a run directory, the script writes the file RUN_DIR/slurm-JOB.state: "started", and at the end the launcher's
// exit code.
std::string sbatch_script(const BatchRequest& request, const std::string& output);

// The path of RUN_DIR/slurm-JOB.state. `job`: the job's number.
std::string state_file(const std::string& run_dir, const std::string& job);

}  // namespace dtrain::cluster
