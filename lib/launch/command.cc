#include "launch/command.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::launch {
namespace {

bool needs_quotes(const std::string& word) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  return word.empty() || word.find_first_not_of(kPlain) != std::string::npos;
}

std::string quoted(const std::string& word) {
  if (!needs_quotes(word)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string Command::name() const {
  return role == "scheduler" ? role : fmt::format("{} {}", role, rank);
}

std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& word : arguments) line += (line.empty() ? "" : " ") + quoted(word);
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
