// `dtrain kill JOB`: ends the processes of a job of this user, on this host and on other hosts.
#include <fmt/ranges.h>
#include <algorithm>
#include <set>

#include "job/process/exit_code.h"
#include "launch/job_record.h"
#include "launch/make_job.h"
#include "proc/this_host.h"
#include "recorded_jobs.h"

namespace dtrain::cmd {
namespace {

struct KillOptions {
  HostsOptions hosts;
  std::chrono::milliseconds stop_timeout{0};  // time between TERM and KILL; 0: the time that the job itself allows
};

job::FlagTable<KillOptions> kill_flags() {
  std::vector<job::FlagRow<KillOptions>> rows = hosts_rows<KillOptions>();
  auto time = training_row<KillOptions>("stop-timeout", DT_FIELD(KillOptions, stop_timeout));
  time.help = "time that the processes have to finish their last steps and write a checkpoint before they are killed";
  time.default_text = "the time that the job's launcher gives them, at least 120 s";
  rows.push_back(std::move(time));
  return job::FlagTable<KillOptions>(std::move(rows));
}

// The time that the launcher of the job gives its processes to stop; if the records differ, the longest time.
std::chrono::milliseconds stop_time_of(const std::vector<launch::RecordedProcess>& processes) {
  std::chrono::milliseconds time{0};
  for (const launch::RecordedProcess& process : processes) time = std::max(time, process.stop_time);
  return time;
}

// Allows only harmless characters in the name, because it becomes a part of a command line on other hosts.
Result<> check_name(const std::string& job) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@=,:";
  if (!job.empty() && job.front() != '-' && job.find_first_not_of(kPlain) == std::string::npos) return {};
  return fail(Code::kUsage, "'{}' is not the name of a job; dtrain ps lists the jobs", job);
}

Error unknown_job(const std::string& job, const std::vector<launch::RecordedProcess>& processes, bool hosts) {
  std::set<std::string> names;
  for (const launch::RecordedProcess& process : processes) names.insert(process.job);
  return {Code::kUsage,
          fmt::format("no process of job '{}' runs on this host{}. Running jobs: {}", job,
                      hosts ? " or on the hosts of -H" : "; -H FILE also searches other hosts",
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
          {}};
}

// What happened to the job's processes on one host.
struct Outcome {
  bool found = false;
  int code = job::kExitOk;
};

void print_wait(const std::vector<launch::RecordedProcess>& left, std::chrono::seconds until_kill) {
  std::vector<std::string> names;
  names.reserve(left.size());
  for (const launch::RecordedProcess& process : left) {
    names.push_back(fmt::format("{} {} (pid {})", process.role, process.rank, process.pid));
  }
  fmt::print("waiting for {} to end; processes that are still running after {} s are killed\n", fmt::join(names, ", "),
             until_kill.count());
  std::fflush(stdout);
}

Outcome end_here(std::vector<launch::RecordedProcess> processes, const std::string& job,
                 std::chrono::milliseconds stop_time) {
  if (processes.empty()) return {};
  const size_t count = processes.size();
  const std::vector<launch::RecordedProcess> left = launch::end_processes(std::move(processes), stop_time, print_wait);
  const std::string host = proc::this_host();
  fmt::print("{}: ended {} of {} processes of job '{}'\n", host, count - left.size(), count, job);
  for (const launch::RecordedProcess& process : left) {
    fmt::print(stderr, "{}: {} {} (pid {}) did not end, even after SIGKILL\n", host, process.role, process.rank,
               process.pid);
  }
  return {true, left.empty() ? job::kExitOk : job::kExitInternal};
}

Outcome report(const job::SshAddress& host, const proc::Finished& answer) {
  for (const std::string& line : answer.output) fmt::print("{}\n", line);
  if (answer.ended_with(job::kExitOk)) return {true, job::kExitOk};
  if (answer.ended_with(job::kExitUsage)) return {};  // no process of this job runs on that host
  if (answer.ended_with(job::kExitInternal)) {
    for (const std::string& line : answer.errors) fmt::print(stderr, "{}\n", line);
    return {true, job::kExitInternal};
  }
  fmt::print(stderr, "error [start-up] {}\n", launch::failure_of(host, answer));
  return {false, job::kExitStartup};
}

}  // namespace

Result<int> kill(const Call& call) {
  DT_TRY(const ToolLine<KillOptions> line, read_tool_line(kill_flags(), "dtrain kill JOB [FLAGS]", call, 1, 1));
  if (line.help) return 0;
  const std::string& name = line.positionals.front();
  DT_TRY_VOID(check_name(name));
  const std::string root = launch::record_root(call.environment);
  DT_TRY(const std::vector<launch::RecordedProcess> processes, launch::recorded_processes(root));
  std::vector<launch::RecordedProcess> here = processes;
  std::erase_if(here, [&](const launch::RecordedProcess& process) { return process.job != name; });
  const std::chrono::milliseconds given = line.options.stop_timeout;
  const std::chrono::milliseconds time = given.count() > 0 ? given : stop_time_of(here);
  // This host comes first: if the scheduler runs here and is stopped, it lets the whole job save its state.
  Outcome outcome = end_here(here, name, time);
  std::vector<std::string> arguments = {"kill", name};
  if (given.count() > 0) arguments.insert(arguments.end(), {"--stop-timeout", job::format_value(given)});
  // If no process of the job runs on this host, the time that the job allows its processes is not known.
  const std::chrono::milliseconds there = time.count() > 0 ? time : launch::kStopTime;
  DT_TRY(const HostsAnswers asked, ask_hosts(line.options.hosts, std::move(arguments),
                                             kAnswerTime + std::chrono::duration_cast<std::chrono::seconds>(there)));
  for (size_t i = 0; i < asked.answers.size(); i++) {
    const Outcome there = report(asked.hosts[i], asked.answers[i]);
    outcome.found = outcome.found || there.found;
    outcome.code = std::max(outcome.code, there.code);
  }
  if (!outcome.found && outcome.code == job::kExitOk) {
    return tl::unexpected(unknown_job(name, processes, !asked.hosts.empty()));
  }
  return outcome.code;
}

}  // namespace dtrain::cmd
