// The script that qsub submits. Without a parallel environment the job is an array of tasks, one for each node that the
// job needs. Every task runs an agent, and the first task also runs the launcher once all tasks have started. With a
// parallel environment the job has a single allocation; its script runs the launcher, which uses mpirun.
#pragma once

#include <string>

#include "cluster/batch_request.h"

namespace dtrain::cluster {

struct SgeJob {
  BatchRequest request;
  std::string parallel_environment = {};  // name of the parallel environment; empty: the job is an array of tasks
  int64_t processes = 0;                  // number of servers and workers together
  std::string output_dir = {};  // directory for the job's output; if it does not exist, Grid Engine starts no task
};

// Code::kUsage: cores are requested without a parallel environment, although SGE counts cores as slots of one.
Result<> check_sge_job(const SgeJob& job);

// The text of the script, with the options for qsub in its comments. The tasks of an array meet in the run directory,
// which all hosts must share: there the launcher leaves its address and the key of its agents, in a file that only its
// user can read. The end of the time limit and qdel reach the script as signals (qsub -notify); the launcher then stops
// with a checkpoint. If the user named a run directory, the script writes the launcher's exit code to sge_code_file().
std::string qsub_script(const SgeJob& job);

// Files in the run directory. `number`: the job's number.
std::string sge_output_file(const SgeJob& job, const std::string& number);
std::string sge_code_file(const SgeJob& job, const std::string& number);
// To send a signal, a user who may write to the directory writes its name into this file; the script then passes it on.
std::string sge_signal_file(const SgeJob& job, const std::string& number);

}  // namespace dtrain::cluster
