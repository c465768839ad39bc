// Which of the lines that the processes of a job print appear on the launcher's screen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launch/command.h"

namespace dtrain::launch {

class ShownLines {
 public:
  // `all_logs`: all lines; else those of the scheduler and of the first worker that is started here, and of the others
  // what is no ordinary line of their log: warnings, errors, crashes.
  explicit ShownLines(bool all_logs) : all_logs_(all_logs) {}

  void started(const Command& command);
  [[nodiscard]] bool shows(const Command& command, const std::string& line) const;
  // Where a worker runs; empty if it was not started here.
  [[nodiscard]] std::string host_of_worker(uint32_t rank) const;

 private:
  bool all_logs_;
  std::map<uint32_t, std::string> hosts_;  // of the workers
};

}  // namespace dtrain::launch
