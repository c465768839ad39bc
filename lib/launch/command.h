// A process for a launcher to start.
#pragma once

#include <string>
#include <vector>

#include "proc/program.h"

namespace dtrain::launch {

struct Command {
  std::string role = {};                      // role of the process: "scheduler", "server", "worker"
  int rank = 0;                               // rank of the process within its role
  std::string host = {};                      // shown in the prefix of its output
  std::vector<std::string> arguments = {};    // the first word is the executable
  std::vector<std::string> environment = {};  // "NAME=value", added to the variables of the host's environment
  // The number of the host on which the process runs. 0 is this host; the job's other hosts are counted from 1.
  size_t host_number = 0;

  // "worker 3"; the scheduler has no number because there is only one.
  [[nodiscard]] std::string name() const;
  // The scheduler's stdin stays open for the launcher's reports (job/process/scheduler_lines.h).
  [[nodiscard]] proc::Program program() const {
    return {.arguments = arguments, .environment = environment, .takes_more_input = role == "scheduler"};
  }
};

// The table that --dry-run prints: one line per process with rank, role, host and command line. Command lines contain
// no secrets.
std::string process_table(const std::vector<Command>& commands);

}  // namespace dtrain::launch
