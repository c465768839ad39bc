// `dtrain leave RANK`: takes a worker out of a running job, which continues without it.
#include "rpc/leave.h"

#include <fmt/ranges.h>

#include <charconv>
#include <map>

#include "job/flags/flags.h"
#include "job/process/exit_code.h"
#include "launch/job_record.h"
#include "launch/recorded.h"
#include "role/process/addresses.h"
#include "tool.h"

namespace dtrain::cmd {
namespace {

struct LeaveOptions {
  job::LaunchFlags launch;
};

job::FlagTable<LeaveOptions> leave_flags() {
  auto scheduler = training_row("scheduler", DT_FIELD(LeaveOptions, launch.scheduler), "found by the job's launcher");
  scheduler.help = "address of the job's scheduler; not needed on the host of the job's launcher";
  return job::FlagTable<LeaveOptions>({
      std::move(scheduler),
      training_row("token-file", DT_FIELD(LeaveOptions, launch.token_file), "environment variable DTRAIN_TOKEN"),
      training_row("tls-cert", DT_FIELD(LeaveOptions, launch.tls_cert, "none")),
      training_row("tls-key", DT_FIELD(LeaveOptions, launch.tls_key, "none")),
      training_row("tls-ca", DT_FIELD(LeaveOptions, launch.tls_ca, "none")),
      training_row("allow-mixed-builds", DT_FIELD(LeaveOptions, launch.allow_mixed_builds)),
  });
}

Result<uint32_t> parse_rank(const std::string& text) {
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error == std::errc() && end == text.data() + text.size()) return rank;
  return fail(Code::kUsage, "'{}' is not the rank of a worker: a number, 0 for worker 0", text);
}

// Sets the address and the token of the scheduler of the job, which a launcher on this host has recorded. `job`: its
// name; empty: the only running job.
Result<> find_job(const std::string& root, const std::string& job, job::LaunchFlags& launch) {
  DT_TRY(const std::vector<launch::RecordedProcess> processes, launch::recorded_processes(root));
  std::map<std::string, const launch::RecordedProcess*> jobs;
  for (const launch::RecordedProcess& process : processes) {
    if (!process.scheduler.empty() && (job.empty() || process.job == job)) jobs.emplace(process.job, &process);
  }
  if (jobs.empty()) {
    return fail(Code::kUsage,
                "{} was started on this host and is running; name its scheduler with --scheduler HOST:PORT, or run "
                "this on the host of its launcher",
                job.empty() ? "no job of yours" : fmt::format("no job '{}'", job));
  }
  if (jobs.size() > 1) {
    std::vector<std::string> names;
    names.reserve(jobs.size());
    for (const auto& [name, process] : jobs) names.push_back(name);
    return fail(Code::kUsage, "several jobs are running; name one: dtrain leave RANK JOB. Running jobs: {}",
                fmt::join(names, ", "));
  }
  launch.scheduler = jobs.begin()->second->scheduler;
  launch.token = jobs.begin()->second->token;
  return {};
}

}  // namespace

Result<int> leave(const Call& call) {
  DT_TRY(ToolLine<LeaveOptions> line, read_tool_line(leave_flags(), "dtrain leave RANK [JOB] [FLAGS]", call, 1, 2));
  if (line.help) return 0;
  DT_TRY(const uint32_t rank, parse_rank(line.positionals[0]));
  job::LaunchFlags& launch = line.options.launch;
  launch.token = call.environment("DTRAIN_TOKEN").value_or("");
  const std::string job = line.positionals.size() > 1 ? line.positionals[1] : "";
  if (!job.empty() && !launch.scheduler.empty()) {
    return fail(Code::kUsage, "--scheduler already names the job; leave out '{}'", job);
  }
  if (launch.scheduler.empty()) DT_TRY_VOID(find_job(launch::record_root(call.environment), job, launch));
  DT_TRY(const net::Endpoint scheduler, net::parse_endpoint(launch.scheduler), "reading --scheduler");
  DT_TRY(const rpc::Security security, role::security_of(launch));
  fmt::print("worker {} is asked to leave after its current step\n", rank);
  std::fflush(stdout);
  DT_TRY(const std::string host, rpc::leave(scheduler, security, rank));
  fmt::print("worker {} on {} has left the job, which continues\n", rank, host);
  return job::kExitOk;
}

}  // namespace dtrain::cmd
