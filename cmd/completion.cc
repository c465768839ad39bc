// `dtrain completion SHELL`: prints a script that completes the command lines of dtrain.
#include "tools/shell_completion.h"

#include <cstdio>
#include <map>

#include "tool.h"

namespace dtrain::cmd {

namespace {
struct Options {};
}  // namespace

Result<int> completion(const Call& call) {
  const job::FlagTable<Options> table({});
  const std::string usage = "dtrain completion bash|zsh|fish";
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, usage, call, 1, 1));
  if (line.help) return 0;
  const std::string& shell = line.positionals.front();
  const std::map<std::string, std::string (*)(const std::vector<tools::CommandHelp>&)> scripts = {
      {"bash", tools::bash_completion}, {"zsh", tools::zsh_completion}, {"fish", tools::fish_completion}};
  const auto script = scripts.find(shell);
  if (script == scripts.end()) {
    return fail(Code::kUsage, "there is no '{}'. Choose from: bash, zsh, fish", shell);
  }
  DT_TRY(const std::vector<tools::CommandHelp> commands, command_helps());
  std::fputs(script->second(commands).c_str(), stdout);
  return 0;
}

}  // namespace dtrain::cmd
