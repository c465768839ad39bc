// Used by the launcher in the first task of a Grid Engine array (sge_script.h) to find the other tasks.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

// An array of tasks; this process runs in the first one.
struct SgeTasks {
  std::string job;                 // JOB_ID
  std::vector<std::string> hosts;  // indexed by task: distinct names ("node1", "node1#2")
  std::vector<std::string> names;  // names of the hosts
};
// True if this process runs in a task of an array.
bool in_sge_array(const job::Environment& environment);
// Reads the files that the tasks have left in the run directory (sge_script.h). Code::kStartup: not in such a job.
Result<SgeTasks> sge_tasks(const job::Environment& environment, const std::string& run_dir);
// Publishes the launcher's address for the agents of the tasks.
launch::AgentStarter sge_starter(const std::string& run_dir, const std::string& job);

}  // namespace dtrain::cluster
