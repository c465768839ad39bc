// The script that runs in each of several equal containers or hosts, which together run a job without a launcher. Node
// 0 runs the scheduler; servers and workers are assigned to the nodes in turn, servers first. Every node finds the
// scheduler by a name that is known before the job starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::cluster {

inline constexpr int kSchedulerPort = 9091;  // the default of ps-lite's trackers

struct NodeScript {
  int64_t nodes = 1, servers = 0, workers = 0;
  std::string number;                 // number of this node, from 0, in shell syntax: "$JOB_COMPLETION_INDEX"
  std::string scheduler;              // name of node 0
  std::string directory = {};         // working directory of the processes; empty: the script's own
  std::string run_dir = {};           // the run directory, in shell syntax
  std::vector<std::string> command;   // the executable and the flags of every process
  std::vector<std::string> own = {};  // further arguments of every process, in shell syntax
  // Variables of all processes, of servers and of workers, each as "NAME=value".
  std::vector<std::string> exports = {}, server_exports = {}, worker_exports = {};
};

// The script runs in any POSIX shell. It passes TERM on to the processes. It ends when all processes have ended, with
// the first exit code that is not 0, in the order scheduler, servers, workers.
std::string node_script(const NodeScript& node);

// The flags of the processes that the script starts: the user's flags, without those that only a launcher uses.
std::vector<std::string> process_flags(const std::vector<std::string>& arguments);

}  // namespace dtrain::cluster
