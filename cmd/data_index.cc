#include "tool.h"
#include "tools/index.h"

namespace dtrain::cmd {

namespace {
struct Options {};
}  // namespace

Result<int> data_index(const Call& call) {
  const job::FlagTable<Options> table({});
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, "dtrain data index FILE.rec", call, 1, 1));
  if (line.help) return 0;
  DT_TRY_VOID(tools::index_records(line.positionals[0], tool_log("index", call)));
  return 0;
}

}  // namespace dtrain::cmd
