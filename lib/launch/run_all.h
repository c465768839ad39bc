// Runs short commands on this machine, several at a time: rsync and ssh to many hosts.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/local_host.h"
#include "launch/signal_queue.h"

namespace dtrain::launch {

struct Finished {
  int status = 0;                        // as wait() returns it
  bool timed_out = false;                // killed at the time limit
  std::vector<std::string> output = {};  // lines of stdout
  std::vector<std::string> errors = {};  // lines of stderr

  // True if it exited with this code.
  [[nodiscard]] bool ended_with(int code) const;
};

struct RunAllOptions {
  LocalHostOptions host;
  size_t at_once = 16;
  std::chrono::milliseconds limit{0};                                 // for all commands together; 0: none
  std::function<bool(size_t command, const Finished&)> goes_on = {};  // at each end; false stops the others
  // For each line of stdout as soon as it is there; true: the line is not kept in Finished.
  std::function<bool(size_t command, const std::string& line)> takes_line = {};
};

// Returns one Finished per command; commands that were not started, because goes_on returned false or the time limit
// was reached, have status -1. Code::kPreempted: a signal arrived, and all commands were ended.
Result<std::vector<Finished>> run_all(const std::vector<Command>& commands, const RunAllOptions& options,
                                      SignalQueue& signals);

}  // namespace dtrain::launch
