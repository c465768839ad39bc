// `dtrain launch-agent`: the launcher's part on another host (launch/agent.h). The launcher talks to it through stdin
// and stdout.
#include "launch/agent.h"

#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "launch/job_record.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {
struct Options {};
}  // namespace

Result<int> launch_agent(const Call& call) {
  const job::FlagTable<Options> table({});
  const std::string usage = "dtrain launch-agent\nRuns on the hosts of a job. The launcher starts it by ssh.";
  DT_TRY(const ToolLine<Options> line, read_tool_line(table, usage, call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY_VOID(launch::run_agent(
      {.build_id = std::string(job::build_id()), .record_root = launch::record_root(call.environment)}));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
