// `dtrain trace`: merges the traces of a job's processes.
#include "telemetry/trace_file.h"

#include "tool.h"

namespace dtrain::cmd {

namespace {

constexpr size_t kDirectoriesMax = 10'000;

}  // namespace

Result<int> trace(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  DT_TRY(const ToolLine<NoFlags> line,
         read_tool_line(table, "dtrain trace RUN-DIRECTORY [DIRECTORY...]", call, 1, kDirectoriesMax));
  if (line.help) return 0;
  DT_TRY(const telemetry::MergedTrace merged, telemetry::merge_traces(line.positionals));
  for (const std::string& left_out : merged.left_out)
    fmt::print(stderr, "warning: left out of the merged trace: {}\n", left_out);
  fmt::print("{}: {} events of {} processes; open it in https://ui.perfetto.dev or chrome://tracing\n", merged.path,
             merged.events, merged.files);
  return 0;
}

}  // namespace dtrain::cmd
