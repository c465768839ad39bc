// A process that a launcher is to start.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace dtrain::launch {

struct Command {
  std::string role = {};                      // "scheduler", "server", "worker"
  int rank = 0;                               // within its role
  std::string host = {};                      // as printed in the prefix of its output
  std::vector<std::string> arguments = {};    // the first one is the executable
  std::vector<std::string> environment = {};  // "NAME=value", on top of what is set where it runs
  size_t machine = 0;                         // 0: this one; else one of the job's machines, counted from 1

  // "worker 3"; the scheduler is alone and carries no number.
  [[nodiscard]] std::string name() const { return role == "scheduler" ? role : fmt::format("{} {}", role, rank); }
};

// The command line as a shell reads it back: quoted where it must be.
std::string shell_line(const std::vector<std::string>& arguments);

// What --dry-run prints: a line a process, with rank, role, host and command line. Secrets are in no command line.
std::string process_table(const std::vector<Command>& commands);

}  // namespace dtrain::launch
