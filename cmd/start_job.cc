#include "start_job.h"

#include <filesystem>

#include "base/console.h"
#include "cluster/cluster.h"
#include "job/process/people.h"
#include "job/process/token.h"
#include "launch/foreground.h"
#include "launch/job_record.h"
#include "launch/supervisor.h"
#include "proc/this_host.h"
#include "role/process/addresses.h"
#include "role/process/report.h"
#include "telemetry/trace_file.h"

namespace dtrain::cmd {

namespace {

constexpr const char* kUnknownHost = "HOST";

// The address at which the other hosts of a job can reach its scheduler, which runs on this host. Empty if there are no
// other hosts.
Result<std::string> scheduler_address(const job::Flags& flags, const Places& places, Missing missing) {
  const std::optional<job::HostAssignment>& assignment = places.hosts;
  if (!flags.launch.on_other_hosts() || !assignment) return std::string();
  if (!places.are_known) return std::string(kUnknownHost);
  std::vector<std::string> hosts;
  for (const job::SshAddress& host : launch::distinct_hosts(*assignment)) hosts.push_back(host.host);
  if (!places.ways.empty()) hosts = places.ways;
  Result<std::string> address = fail(Code::kNotFound, "the hosts of the job are unknown");
  if (hosts != std::vector<std::string>{kUnknownHost}) address = role::launcher_address(flags.launch, hosts);
  if (address || missing == nullptr) return address;
  missing->push_back(fmt::format("the scheduler's address: {}; shown as {}", address.error().message, kUnknownHost));
  return std::string(kUnknownHost);
}

}  // namespace

namespace {

// Merges the traces in the run directory, which may include those of other hosts if they share it. (`dtrain trace` can
// also merge traces from other directories.)
void merge_traces(const std::string& run_dir, launch::Screen& screen) {
  const Result<telemetry::MergedTrace> merged = telemetry::merge_traces({run_dir});
  if (merged) {
    screen.line(fmt::format("trace of {} processes: {}", merged->files, merged->path));
    for (const std::string& left_out : merged->left_out) screen.line("left out of the merged trace: " + left_out);
  } else if (merged.error().code != Code::kNotFound) {
    screen.line("the traces cannot be merged: " + merged.error().line());
  }
}

// Placeholders for the hosts of a host file that does not exist.
job::HostAssignment unknown_hosts(const job::Flags& flags) {
  const job::ProcessSlot slot{.host = kUnknownHost, .gpus = {}, .ssh = {.host = kUnknownHost}};
  job::HostAssignment assignment;
  assignment.servers.assign(static_cast<size_t>(flags.job.num_servers), slot);
  assignment.workers.assign(static_cast<size_t>(flags.job.num_workers), slot);
  return assignment;
}

}  // namespace

namespace {

// The hosts that -H gives; nullopt if it is not given.
Result<std::optional<job::HostAssignment>> named_hosts(const job::Flags& flags, Missing missing) {
  const std::string& file = flags.launch.hostfile;
  if (missing == nullptr || file.empty() || std::filesystem::exists(file)) return job::read_host_assignment(flags);
  missing->push_back(
      fmt::format("the host file '{}' (one host per line); all hosts are shown as {}", file, kUnknownHost));
  return unknown_hosts(flags);
}

}  // namespace

namespace {

Result<Places> places_of_assignment(std::optional<job::HostAssignment> hosts, const Call& call, const job::Flags& flags,
                                    Missing missing) {
  if (!cluster::is_cluster(flags.launch.launcher)) return Places{.hosts = std::move(hosts)};
  Result<cluster::Cluster> cluster = cluster::find_cluster(flags, call.environment, hosts);
  if (cluster) return Places{std::move(cluster->assignment), std::move(cluster->starter), std::move(cluster->ways)};
  if (missing == nullptr || cluster.error().code != Code::kStartup) return tl::unexpected(std::move(cluster.error()));
  missing->push_back(fmt::format("--launcher {}: {}", flags.launch.launcher, cluster.error().message));
  return Places{hosts ? *hosts : unknown_hosts(flags),
                cluster::usual_starter(flags.launch.launcher, hosts.has_value())};
}

}  // namespace

Result<Places> places_of(const Call& call, const job::Flags& flags, Missing missing) {
  DT_TRY(std::optional<job::HostAssignment> hosts, named_hosts(flags, missing));
  return places_of_assignment(std::move(hosts), call, flags, missing);
}

Result<Places> places_on(const std::optional<job::HostFile>& hosts, const Call& call, const job::Flags& flags) {
  std::optional<job::HostAssignment> assignment;
  if (hosts) {
    DT_TRY(assignment, job::assign_hosts(*hosts, job::assignment_options(flags)));
  }
  return places_of_assignment(std::move(assignment), call, flags, nullptr);
}

Result<JobToStart> job_to_start(const Call& call, StartSetting setting) {
  DT_TRY(const std::string executable, proc::this_executable());
  DT_TRY(const std::string token, job::token_of(setting.flags.launch));
  DT_TRY(launch::Variables variables, launch::variables_of(setting.flags.launch, call.environment));
  DT_TRY(const std::string address, scheduler_address(setting.flags, setting.places, setting.missing));
  const bool is_known = setting.places.are_known;
  const launch::JobSetting job{.executable = executable,
                               .arguments = std::move(setting.arguments),
                               .flags = setting.flags,
                               .host = is_known ? proc::this_host() : "NODE1",
                               .hosts = std::move(setting.places.hosts),
                               .run_dir = setting.run_dir,
                               .token = token,
                               .record_root = launch::record_root(call.environment),
                               .variables = std::move(variables),
                               .is_for_people = job::is_screen_for_people(setting.flags.given("log-format")),
                               .starter = std::move(setting.places.starter),
                               .address = address,
                               .directory = std::filesystem::current_path().string(),
                               .temporary = call.environment("TMPDIR").value_or("/tmp"),
                               .only_rank = setting.only_rank,
                               .restart = setting.restart};
  return JobToStart{launch::make_job(job), setting.run_dir};
}

namespace {

role::JobEnd for_summary(const std::string& name, launch::JobEnd end) {
  role::JobEnd summed{.job = name,
                      .exit_code = end.exit_code,
                      .error = std::move(end.error),
                      .peak_rss_bytes = std::move(end.peak_rss_bytes),
                      .findings = std::move(end.findings)};
  for (launch::Restart& restart : end.restarts) {
    summed.restarts.push_back({std::move(restart.cause), restart.step, restart.seconds});
  }
  return summed;
}

}  // namespace

Result<int> run_job(launch::RestartableJob job, const job::Flags& flags, const role::RunDir& run_dir,
                    const std::function<void(const launch::JobEnd& end)>& on_end) {
  std::string name;  // the name of the last run's processes
  job.make = [&name, &run_dir, make = std::move(job.make)](int64_t restart) -> Result<launch::Job> {
    DT_TRY(launch::Job processes, make(restart));
    processes.log_hint = [&run_dir] { return run_dir.has_begun() ? "logs are in " + run_dir.path() : ""; };
    name = processes.name;
    return processes;
  };
  Console console = Console::to_stderr(flags.launch.terminal);
  return launch::run_in_background(console, [&](launch::Screen& screen) -> Result<int> {
    DT_TRY(launch::JobEnd end, launch::supervise_with_restarts(job, screen));
    if (on_end) on_end(end);
    merge_traces(run_dir.path(), screen);
    if (!run_dir.has_begun()) return end.exit_code;
    const int code = end.exit_code;
    DT_TRY_VOID(role::complete_summary(run_dir.path(), flags, for_summary(name, std::move(end))));
    return code;
  });
}

}  // namespace dtrain::cmd
