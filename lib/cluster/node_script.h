// The script of one of several equal containers or hosts that together run a job without a launcher. Node 0 runs the
// scheduler; servers and workers are dealt out in turn, servers first. Every node finds the scheduler by a name that is
// known before the job starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::cluster {

inline constexpr int kSchedulerPort = 9091;  // of ps-lite's trackers, too

struct NodeScript {
  int64_t nodes = 1, servers = 0, workers = 0;
  std::string number;                 // this node's, from 0, in shell syntax: "$JOB_COMPLETION_INDEX"
  std::string scheduler;              // name of node 0
  std::string directory = {};         // in which the processes start; empty: where the script starts
  std::string run_dir = {};           // in shell syntax
  std::vector<std::string> command;   // the executable and the flags of every process
  std::vector<std::string> own = {};  // further words of every process, in shell syntax
  std::vector<std::string> exports = {}, server_exports = {}, worker_exports = {};  // "NAME=value"
};

// For any POSIX shell. TERM is passed on to the processes. Ends when all processes have ended, with the code of the
// first one, in the order scheduler, servers, workers, that is not 0.
std::string node_script(const NodeScript& node);

// The flags of the processes of such a job: the user's, without those that only a launcher uses.
std::vector<std::string> process_flags(const std::vector<std::string>& arguments);

}  // namespace dtrain::cluster
