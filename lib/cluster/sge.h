// The launcher in the first task of an array of Grid Engine (sge_script.h): how it finds the other tasks.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

// The array of tasks of which this process runs in the first one.
struct SgeTasks {
  std::string job;                 // JOB_ID
  std::vector<std::string> hosts;  // by task: names that differ ("node1", "node1#2")
  std::vector<std::string> names;  // of the hosts
};
// Whether this process runs in a task of an array.
bool in_sge_array(const job::Environment& environment);
// Reads what the tasks have left in the run directory (sge_script.h). Code::kStartup: not in such a job.
Result<SgeTasks> sge_tasks(const job::Environment& environment, const std::string& run_dir);
// Leaves the launcher's address for the agents of the tasks.
launch::AgentStarter sge_starter(const std::string& run_dir, const std::string& job);

}  // namespace dtrain::cluster
