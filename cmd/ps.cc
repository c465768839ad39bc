// `dtrain ps`: lists the processes of jobs that run on this host and on other hosts.
#include <algorithm>
#include <tuple>

#include "job/process/exit_code.h"
#include "launch/job_record.h"
#include "recorded_jobs.h"

namespace dtrain::cmd {
namespace {

struct PsOptions {
  HostsOptions hosts;
  bool plain = false;
};

job::FlagTable<PsOptions> ps_flags() {
  std::vector<job::FlagRow<PsOptions>> rows = hosts_rows<PsOptions>();
  rows.push_back({.name = "plain",
                  .help = "print one line per process: job, role, rank, pid, start, seconds, host",
                  .bind = DT_FIELD(PsOptions, plain)});
  return {std::move(rows)};
}

// Removes duplicates: the host file may list a host under two names, and may list this host.
void sort_and_merge(std::vector<launch::RecordedProcess>& processes) {
  const auto key = [](const launch::RecordedProcess& p) { return std::tie(p.job, p.role, p.rank, p.host, p.pid); };
  const auto less = [&](const auto& a, const auto& b) { return key(a) < key(b); };
  const auto same = [&](const auto& a, const auto& b) { return key(a) == key(b); };
  std::sort(processes.begin(), processes.end(), less);
  processes.erase(std::unique(processes.begin(), processes.end(), same), processes.end());
}

}  // namespace

Result<int> ps(const Call& call) {
  DT_TRY(const ToolLine<PsOptions> line, read_tool_line(ps_flags(), "dtrain ps [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  const std::string root = launch::record_root(call.environment);
  DT_TRY(std::vector<launch::RecordedProcess> processes, launch::recorded_processes(root));
  DT_TRY(const HostsAnswers asked, ask_hosts(line.options.hosts, {"ps", "--plain"}, kAnswerTime));
  int code = job::kExitOk;
  for (size_t i = 0; i < asked.answers.size(); i++) {
    const proc::Finished& answer = asked.answers[i];
    for (launch::RecordedProcess& process : launch::parse_plain(answer.output)) processes.push_back(std::move(process));
    if (answer.ended_with(job::kExitOk)) continue;
    fmt::print(stderr, "error [start-up] {}\n", launch::failure_of(asked.hosts[i], answer));
    code = job::kExitStartup;
  }
  sort_and_merge(processes);
  if (processes.empty() && !line.options.plain) {
    fmt::print("you have no running jobs on {}\n",
               asked.hosts.empty() ? "this host (-H FILE also searches other hosts)" : "this host and the hosts of -H");
    return code;
  }
  std::fputs((line.options.plain ? launch::plain(processes) : launch::table(processes)).c_str(), stdout);
  return code;
}

}  // namespace dtrain::cmd
