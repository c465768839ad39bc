#include "start_job.h"

#include <filesystem>

#include "job/process_environment.h"
#include "job/token.h"
#include "role/addresses.h"

namespace dtrain::cmd {

namespace {

Result<launch::Variables> variables_of(const Call& call, const job::LaunchFlags& flags) {
  launch::Variables variables;
  DT_TRY(variables.scheduler, job::process_environment(flags, job::Role::kScheduler, call.environment));
  DT_TRY(variables.server, job::process_environment(flags, job::Role::kServer, call.environment));
  DT_TRY(variables.worker, job::process_environment(flags, job::Role::kWorker, call.environment));
  variables.forwarded = job::forwarded_environment(call.environment);
  return variables;
}

// How the hosts of a job reach its scheduler, which runs here; nothing to say without other hosts.
Result<std::string> scheduler_address(const job::Flags& flags, const std::optional<job::Seating>& seating) {
  if (flags.launch.launcher != "ssh" || !seating) return std::string();
  std::vector<std::string> hosts;
  for (const job::SshAddress& host : launch::distinct_hosts(*seating)) hosts.push_back(host.host);
  return role::launcher_address(flags.launch, hosts);
}

}  // namespace

Result<JobToStart> job_to_start(const Call& call, StartSetting setting) {
  DT_TRY(const std::string executable, launch::this_executable());
  DT_TRY(const std::string token, job::token_of(setting.flags.launch));
  DT_TRY(launch::Variables variables, variables_of(call, setting.flags.launch));
  DT_TRY(const std::string address, scheduler_address(setting.flags, setting.hosts));
  const launch::JobSetting job{.executable = executable,
                               .arguments = std::move(setting.arguments),
                               .flags = setting.flags,
                               .host = launch::this_host(),
                               .hosts = std::move(setting.hosts),
                               .run_dir = setting.run_dir,
                               .token = token,
                               .runtime_directory = call.environment("XDG_RUNTIME_DIR").value_or(""),
                               .variables = std::move(variables),
                               .address = address,
                               .directory = std::filesystem::current_path().string()};
  return JobToStart{launch::make_job(job), setting.run_dir};
}

}  // namespace dtrain::cmd
