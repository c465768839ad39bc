#include "tool.h"

#include "base/nearest.h"

namespace dtrain::cmd {

Log tool_log(const std::string& name, const Call& call) {
  return Log::to_stderr(name, 0, call.environment("TERM").value_or(""));
}

job::RefusedFlag later(std::vector<std::string> spellings) {
  return {std::move(spellings), "is not in this version of dtrain"};
}

std::string command_text(const std::string& usage, const std::vector<job::FlagHelp>& flags) {
  return usage + "\n" + job::help_lines(flags);
}

void show_help(const Call& call, const std::string& usage, std::vector<job::FlagHelp> flags) {
  if (call.take_help) return call.take_help(usage, std::move(flags));
  std::fputs(command_text(usage, flags).c_str(), stdout);
}

Result<> check_rest(const std::vector<std::string>& own, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || !nearest(name, own) || job::training_flags().find(name)) continue;
    return tl::unexpected(job::unknown_flag(name, own));
  }
  return {};
}

}  // namespace dtrain::cmd
