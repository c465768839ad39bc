// `dtrain set-rate RUN-DIRECTORY RATE|xFACTOR`: changes the learning rate of a run during the training.
#include "role/process/run_dir.h"
#include "tool.h"
#include "train/rate_request.h"

namespace dtrain::cmd {

Result<int> set_rate(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  DT_TRY(const ToolLine<NoFlags> line, read_tool_line(table, "dtrain set-rate RUN-DIRECTORY RATE|xFACTOR", call, 2, 2));
  if (line.help) return 0;
  const std::string& run_dir = line.positionals[0];
  DT_TRY(const train::RateRequest request, train::parse_rate_request(line.positionals[1]));
  DT_TRY_VOID(train::request_rate(run_dir + "/" + role::kMetricsFile, request));
  fmt::print("{}: worker 0 will read the request at the end of the epoch, and log the new learning rate\n", run_dir);
  return 0;
}

}  // namespace dtrain::cmd
