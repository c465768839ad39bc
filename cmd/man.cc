// `dtrain man`: prints the manual page.
#include "job/process/build_id.h"
#include "tool.h"
#include "tools/manual_page.h"

namespace dtrain::cmd {

namespace {
struct Options {};
}  // namespace

Result<int> man(const Call& call) {
  const job::FlagTable<Options> table({});
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, "dtrain man", call, 0, 0));
  if (line.help) return 0;
  DT_TRY(const std::vector<tools::CommandHelp> commands, command_helps());
  std::fputs(tools::manual_page(commands, job::version()).c_str(), stdout);
  return 0;
}

}  // namespace dtrain::cmd
