// Short-lived commands on this machine, several at a time: rsync and ssh to many hosts.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/local_host.h"
#include "launch/signal_queue.h"

namespace dtrain::launch {

struct Finished {
  int status = 0;                        // as wait gives it
  bool timed_out = false;                // it was killed at the limit
  std::vector<std::string> output = {};  // lines of stdout
  std::vector<std::string> errors = {};  // and of stderr

  // It ended by itself with this code.
  [[nodiscard]] bool ended_with(int code) const;
};

struct RunAllOptions {
  LocalHostOptions host;
  size_t at_once = 16;
  std::chrono::milliseconds limit{0};                                 // for all together; 0: none
  std::function<bool(size_t command, const Finished&)> goes_on = {};  // false: stop the others
};

// One Finished a command; those that were not begun, because of goes_on, have status -1. Code::kPreempted: a signal
// came, and all were ended.
Result<std::vector<Finished>> run_all(const std::vector<Command>& commands, const RunAllOptions& options,
                                      SignalQueue& signals);

}  // namespace dtrain::launch
