// `dtrain leave RANK`: takes a worker out of a running job, which continues without it.
#include "running_job.h"

#include <charconv>

#include "job/process/exit_code.h"
#include "role/process/addresses.h"
#include "rpc/running_job.h"

namespace dtrain::cmd {
namespace {

struct LeaveOptions {
  job::LaunchFlags launch;
};

Result<uint32_t> parse_rank(const std::string& text) {
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error == std::errc() && end == text.data() + text.size()) return rank;
  return fail(Code::kUsage, "'{}' is not the rank of a worker: a number, 0 for worker 0", text);
}

}  // namespace

Result<int> leave(const Call& call) {
  const job::FlagTable<LeaveOptions> flags(scheduler_rows<LeaveOptions>());
  DT_TRY(ToolLine<LeaveOptions> line, read_tool_line(flags, "dtrain leave RANK [JOB] [FLAGS]", call, 1, 2));
  if (line.help) return 0;
  DT_TRY(const uint32_t rank, parse_rank(line.positionals[0]));
  job::LaunchFlags& launch = line.options.launch;
  const std::string job = line.positionals.size() > 1 ? line.positionals[1] : "";
  DT_TRY_VOID(find_scheduler(call, job, "dtrain leave RANK JOB", launch));
  DT_TRY(const net::Endpoint scheduler, net::parse_endpoint(launch.scheduler), "reading --scheduler");
  DT_TRY(const rpc::Security security, role::security_of(launch));
  fmt::print("worker {} is asked to leave after its current step\n", rank);
  std::fflush(stdout);
  DT_TRY(const std::string host, rpc::leave(scheduler, security, rank));
  fmt::print("worker {} on {} has left the job, which continues\n", rank, host);
  return job::kExitOk;
}

}  // namespace dtrain::cmd
