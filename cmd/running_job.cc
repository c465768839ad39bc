#include "running_job.h"

#include <fmt/ranges.h>

#include <map>

#include "launch/job_record.h"
#include "launch/recorded.h"

namespace dtrain::cmd {

Result<> find_scheduler(const Call& call, const std::string& job, const std::string& usage, job::LaunchFlags& launch) {
  launch.token = call.environment("DTRAIN_TOKEN").value_or("");
  if (!job.empty() && !launch.scheduler.empty()) {
    return fail(Code::kUsage, "--scheduler already names the job; leave out '{}'", job);
  }
  if (!launch.scheduler.empty()) return {};
  DT_TRY(const std::vector<launch::RecordedProcess> processes,
         launch::recorded_processes(launch::record_root(call.environment)));
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
    return fail(Code::kUsage, "several jobs are running; name one: {}. Running jobs: {}", usage,
                fmt::join(names, ", "));
  }
  launch.scheduler = jobs.begin()->second->scheduler;
  launch.token = jobs.begin()->second->token;
  return {};
}

}  // namespace dtrain::cmd
