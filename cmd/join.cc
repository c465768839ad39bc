// `dtrain join`: adds a worker to a running job.
#include <fmt/core.h>

#include <array>

#include "base/duration_text.h"
#include "job/spec/job_spec.h"
#include "notes.h"
#include "role/process/addresses.h"
#include "role/role.h"
#include "rpc/running_job.h"
#include "running_job.h"
#include "signal_thread.h"

namespace dtrain::cmd {
namespace {

struct JoinOptions {
  job::LaunchFlags launch;
  std::chrono::milliseconds scheduler_grace = job::WireFlags().scheduler_grace;
};

// Flags of the job's processes that do not suit a worker on another host.
constexpr std::array kOfOneHost = {"advertise", "bind",     "interface", "port",         "port-range",
                                   "hostfile",  "launcher", "rank",      "metrics-addr", "log-file"};

constexpr const char* kUsage =
    "dtrain join [JOB] [FLAGS]\n\n"
    "Starts a worker on this host, which takes part in a running job from the next step\n"
    "at which all workers can meet. The job must have been started with\n"
    "--on-worker-loss wait or shrink, and have a free seat (--max-workers). The worker\n"
    "gets its flags from the job. Those of a process, such as --data-dir, --gpus and\n"
    "--threads, can be given anew. Ctrl-C makes the worker leave the job.";

std::vector<job::FlagRow<JoinOptions>> rows() {
  std::vector<job::FlagRow<JoinOptions>> rows = scheduler_rows<JoinOptions>();
  rows.push_back(training_row<JoinOptions>("scheduler-grace", DT_FIELD(JoinOptions, scheduler_grace)));
  return rows;
}

// The scheduler may have been killed, and be about to continue the job.
Result<rpc::JobDescription> describe_job(const net::Endpoint& scheduler, const rpc::Security& security,
                                         std::chrono::milliseconds grace, const Signals& signals) {
  const rpc::Patience patience{
      .limit = grace,
      .on_wait =
          [&] {
            show_note(fmt::format("waiting for the scheduler at {}, for at most {} (--scheduler-grace)",
                                  to_text(scheduler), duration_text(grace)));
          },
      .gives_up = [&] { return signals.stop.load(); }};
  return rpc::describe_job(scheduler, security, patience);
}

Result<job::JobSpec> spec_of(const rpc::JobDescription& description) {
  DT_TRY(job::JobSpec spec, job::parse_job_spec(description.job, "the job's description"));
  for (const char* flag : kOfOneHost) spec.remembered.values.erase(flag);
  return spec;
}

}  // namespace

Result<int> join(const Call& call) {
  const job::FlagTable<JoinOptions> table(rows());
  if (job::asks_for_help(call.arguments)) {
    show_help(call, kUsage, table.flag_helps());
    return 0;
  }
  const bool has_job = !call.arguments.empty() && !call.arguments.front().starts_with('-');
  const std::string job = has_job ? call.arguments.front() : "";
  std::vector<std::string> arguments(call.arguments.begin() + (has_job ? 1 : 0), call.arguments.end());
  DT_TRY(MixedLine<JoinOptions> line, read_mixed_line(table, arguments));
  // Before gRPC starts threads, on which a signal would end the process instead of making it leave the job.
  const SignalThread signals;
  job::LaunchFlags& launch = line.options.launch;
  DT_TRY_VOID(find_scheduler(call, job, "dtrain join JOB", launch));
  DT_TRY(const net::Endpoint scheduler, net::parse_endpoint(launch.scheduler), "reading --scheduler");
  DT_TRY(const rpc::Security security, role::security_of(launch));
  DT_TRY(const rpc::JobDescription description,
         describe_job(scheduler, security, line.options.scheduler_grace, signals.signals()));
  DT_TRY(const job::JobSpec spec, spec_of(description));
  arguments.insert(arguments.end(), {"--role", "worker", "--scheduler", launch.scheduler});
  DT_TRY(job::Parsed parsed, job::parse_flags(arguments, call.environment, &spec));
  for (const std::string& note : parsed.notes) show_note(note);
  job::Flags& flags = parsed.flags;
  if (!launch.token.empty()) flags.launch.token = launch.token;
  if (flags.launch.run_dir.empty()) flags.launch.run_dir = description.run_dir;
  DT_TRY_VOID(role::check_tls(flags.launch));
  return role::run_process(flags, signals.signals(), nullptr);
}

}  // namespace dtrain::cmd
