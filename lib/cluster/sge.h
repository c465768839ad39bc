// Finds the tasks of a Grid Engine array (sge_script.h), for the launcher in its first task.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

// An array of tasks. This process runs in the first task.
struct SgeTasks {
  std::string job;                 // the job's number, from the variable JOB_ID
  std::vector<std::string> hosts;  // distinct names of the tasks' hosts, indexed by task ("node1", "node1#2")
  std::vector<std::string> names;  // names of the hosts, without a number
};
// True if this process runs in a task of an array.
bool in_sge_array(const job::Environment& environment);
// Reads the files that the tasks have left in the run directory (sge_script.h). Code::kStartup: this process is not in
// such a job.
Result<SgeTasks> sge_tasks(const job::Environment& environment, const std::string& run_dir);
// Publishes the launcher's address for the agents of the tasks.
launch::AgentStarter sge_starter(const std::string& run_dir, const std::string& job);

}  // namespace dtrain::cluster
