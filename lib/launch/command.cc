#include "launch/command.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/printable.h"

namespace dtrain::launch {
std::string Command::name() const {
  return role == "scheduler" ? role : fmt::format("{} {}", role, rank);
}

std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& word : arguments) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string process_table(const std::vector<Command>& commands) {
  size_t host_width = 4;
  for (const Command& command : commands) host_width = std::max(host_width, command.host.size());
  std::string table = fmt::format("{:<4}  {:<9}  {:<{}}  command\n", "rank", "role", "host", host_width);
  for (const Command& command : commands) {
    table += fmt::format("{:<4}  {:<9}  {:<{}}  {}\n", command.rank, command.role, command.host, host_width,
                         shell_line(command.arguments));
  }
  return table;
}

}  // namespace dtrain::launch
