#include "dataset/index.h"
#include "tool.h"

namespace dtrain::cmd {

Result<int> data_index(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  DT_TRY(const ToolLine<NoFlags> line, read_tool_line(table, "dtrain data index FILE.rec", call, 1, 1));
  if (line.help) return 0;
  DT_TRY_VOID(dataset::index_records(line.positionals[0], tool_log("index", call)));
  return 0;
}

}  // namespace dtrain::cmd
