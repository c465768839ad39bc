// What a job requests from a batch system, and what the batch job runs: a launcher, which is this executable with the
// user's flags and runs on the nodes that the system has allocated.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/host_file.h"
#include "job/process/process_environment.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cluster {

// The resources of each node: the largest needs of any node. 0: the system's default.
struct NodeRequest {
  int64_t cores = 0;
  int64_t memory = 0;  // bytes of memory
  int64_t gpus = 0;
};

struct BatchRequest {
  std::string name;   // name of the job in the batch system
  std::string queue;  // queue in which the job is submitted; empty: the system's default
  int64_t nodes = 1;
  NodeRequest node = {};
  std::chrono::seconds time_limit{0};     // longest time that the job may run; 0: the system's default
  std::chrono::seconds stop_time{0};      // how long before the time limit the job is told to stop
  std::vector<std::string> options = {};  // the user's own options for the system's command
  std::string directory = {};             // absolute path of the directory in which the launcher starts
  std::string network = {};      // the network's name without a path, which is also in the names of checkpoints
  std::string run_dir = {};      // absolute; empty: the job creates one whose name ends in the job's number
  std::string checkpoints = {};  // absolute prefix of the checkpoints; empty: they are in the run directory
  std::vector<std::string> command = {};  // the launcher's command line, without a run directory
  // Further flags of the launcher, used when the job starts for the first time but not when the system starts it again.
  std::vector<std::string> at_first = {};
  int64_t restarts_max = 0;  // --max-restarts
};

// The command as the user typed it.
struct UserCommand {
  std::string executable;              // absolute path of this executable
  std::vector<std::string> arguments;  // the arguments without the program's name and the sub-command
  const job::Flags& flags;             // parsed from `arguments`, with --resume resolved
  job::Environment environment = {};
  std::string directory;  // the current directory
};

// The settings of the launcher inside the batch job.
struct CommandInside {
  std::string launcher = {};  // the value of --launcher; empty: the launcher recognizes the allocation
  std::string run_dir = {};   // absolute path of the run directory, as in BatchRequest; empty: the job creates one
  // Absolute prefix of the checkpoints, as in BatchRequest; empty: they are in the run directory.
  std::string checkpoints = {};
};

// Code::kUsage: more nodes than processes, GPUs that are not numbered from 0, or a flag that cannot be used here.
Result<BatchRequest> batch_request(const UserCommand& command, const CommandInside& inside);

// Code::kUsage for --gpus all, with a system that gives a job only as many GPUs as it requests. `gives_all`: whether
// the request includes all GPUs of the nodes.
Result<> check_all_gpus(const job::Flags& flags, const char* system, bool gives_all = false);

// Code::kUsage for --max-restarts, with a system on which no launcher runs that could start the job again.
Result<> check_no_restarts(const job::Flags& flags, const char* system);

// The names of the flags that only make requests to a batch system.
const std::vector<std::string>& batch_flags();
// The number of nodes that the flags request.
int64_t nodes_of(const job::Flags& flags);
// Assigns the processes to nodes whose names are not known yet: NODE1, NODE2 and so on.
Result<job::HostAssignment> assign_to_unknown_nodes(const job::Flags& flags);

}  // namespace dtrain::cluster
