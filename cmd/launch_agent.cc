// `dtrain launch-agent`: the launcher's part on another host (launch/agent.h). The launcher talks to it through stdin
// and stdout.
#include "launch/agent.h"

#include "command.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "launch/job_record.h"

namespace dtrain::cmd {

Result<int> launch_agent(const Call& call) {
  if (!call.arguments.empty()) return fail(Code::kUsage, "launch-agent is started by a launcher, without flags");
  DT_TRY_VOID(launch::run_agent(
      {.build_id = std::string(job::build_id()), .record_root = launch::record_root(call.environment)}));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
