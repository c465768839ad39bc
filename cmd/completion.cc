// `dtrain completion SHELL`: prints a script that completes the command lines of dtrain.
#include "tools/shell_completion.h"

#include "tool.h"

namespace dtrain::cmd {

namespace {
struct Options {};
}  // namespace

Result<int> completion(const Call& call) {
  const job::FlagTable<Options> table({});
  const std::string usage = "dtrain completion bash|zsh";
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, usage, call, 1, 1));
  if (line.help) return 0;
  const std::string& shell = line.positionals.front();
  if (shell != "bash" && shell != "zsh") return fail(Code::kUsage, "there is no '{}'. Choose from: bash, zsh", shell);
  DT_TRY(const std::vector<tools::CommandHelp> commands, command_helps());
  std::fputs((shell == "bash" ? tools::bash_completion(commands) : tools::zsh_completion(commands)).c_str(), stdout);
  return 0;
}

}  // namespace dtrain::cmd
