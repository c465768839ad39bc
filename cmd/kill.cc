// `dtrain kill JOB`: ends the processes of one of this user's jobs, on this machine and on others.
#include <algorithm>
#include <set>

#include "job/process/exit_code.h"
#include "launch/job_record.h"
#include "launch/make_job.h"
#include "launch/this_machine.h"
#include "recorded_jobs.h"

namespace dtrain::cmd {
namespace {

struct Options {
  HostsOptions hosts;
};

// The name becomes part of a command line on other hosts, so only harmless characters are allowed.
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

// How the part of the job on one host ended.
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
  fmt::print("waiting for {} to end; processes that still run in {} s are killed\n", fmt::join(names, ", "),
             until_kill.count());
  std::fflush(stdout);
}

Outcome end_here(std::vector<launch::RecordedProcess> processes, const std::string& job) {
  std::erase_if(processes, [&](const launch::RecordedProcess& process) { return process.job != job; });
  if (processes.empty()) return {};
  const size_t count = processes.size();
  const std::vector<launch::RecordedProcess> left =
      launch::end_processes(std::move(processes), launch::kStopTime, print_wait);
  const std::string host = launch::this_host();
  fmt::print("{}: ended {} of {} processes of job '{}'\n", host, count - left.size(), count, job);
  for (const launch::RecordedProcess& process : left) {
    fmt::print(stderr, "{}: {} {} (pid {}) does not end, not even after SIGKILL\n", host, process.role, process.rank,
               process.pid);
  }
  return {true, left.empty() ? job::kExitOk : job::kExitInternal};
}

Outcome report(const job::SshAddress& host, const launch::Finished& answer) {
  for (const std::string& line : answer.output) fmt::print("{}\n", line);
  if (answer.ended_with(job::kExitOk)) return {true, job::kExitOk};
  if (answer.ended_with(job::kExitUsage)) return {};  // no process of this job runs there
  if (answer.ended_with(job::kExitInternal)) {
    for (const std::string& line : answer.errors) fmt::print(stderr, "{}\n", line);
    return {true, job::kExitInternal};
  }
  fmt::print(stderr, "error [start-up] {}\n", launch::complaint(host, answer));
  return {false, job::kExitStartup};
}

}  // namespace

Result<int> kill(const Call& call) {
  DT_TRY(const ToolLine<Options> line,
         read_tool_line(job::FlagTable<Options>{hosts_rows<Options>()}, "dtrain kill JOB [FLAGS]", call, 1, 1));
  if (line.help) return 0;
  const std::string& name = line.positionals.front();
  DT_TRY_VOID(check_name(name));
  const std::string root = launch::record_root(call.environment);
  DT_TRY(const std::vector<launch::RecordedProcess> processes, launch::recorded_processes(root));
  Outcome outcome = end_here(processes, name);  // first: a scheduler that is asked to stop lets the whole job save
  DT_TRY(const HostsAnswers asked, ask_hosts(line.options.hosts, {"kill", name}, kAnswerTime + launch::kStopTime));
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
