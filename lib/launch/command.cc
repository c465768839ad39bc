#include "launch/command.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::launch {
std::string Command::name() const {
  return role == "scheduler" ? role : fmt::format("{} {}", role, rank);
}

std::string process_table(const std::vector<Command>& commands) {
  size_t host_width = 4;
  for (const Command& command : commands) host_width = std::max(host_width, command.host.size());
  std::string table = fmt::format("{:<4}  {:<9}  {:<{}}  command\n", "rank", "role", "host", host_width);
  for (const Command& command : commands) {
    table += fmt::format("{:<4}  {:<9}  {:<{}}  {}\n", command.rank, command.role, command.host, host_width,
                         proc::shell_line(command.arguments));
  }
  return table;
}

}  // namespace dtrain::launch
