// `dtrain [train]`: trains in this process, or starts a whole job.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/console.h"
#include "command.h"
#include "dry_run.h"
#include "job/build_id.h"
#include "job/data_set.h"
#include "launch/foreground.h"
#include "launch/make_job.h"
#include "launch/supervisor.h"
#include "role/membership.h"
#include "role/report.h"
#include "role/role.h"
#include "role/run_dir.h"
#include "role/setup.h"
#include "signal_thread.h"
#include "start_job.h"

namespace dtrain::cmd {

namespace {

// What would fail in every process of the job alike is said once, before any is started or a run directory made.
Result<> check_early(job::Flags flags) {
  DT_TRY_VOID(job::apply_own_data_set(flags));
  DT_TRY_VOID(role::build_network(flags.job));
  DT_TRY_VOID(role::initializer_spec(flags.job));
  DT_TRY_VOID(role::read_sharding(flags));
  DT_TRY(const std::optional<job::GroupsFile> groups, role::read_groups(flags));
  DT_TRY(const auto places, role::places_to_be(flags));
  const bool here = flags.launch.launcher == "local";  // elsewhere a file may use addresses that are not known yet
  if (groups && places && here) DT_TRY_VOID(job::parse_groups(*groups, *places, flags.job.scheme.ungrouped));
  return {};
}

Result<JobToStart> job_to_start(const Call& call, const job::Flags& flags, Missing missing = nullptr) {
  DT_TRY(const std::optional<role::Resumed> resumed, role::find_resumed(flags));
  std::vector<std::string> arguments = call.arguments;
  // Looked for once: under runs/ every process would soon find the new run itself.
  if (!flags.loop.resume.empty()) {
    for (const std::string& word :
         {std::string("--retrain=0"), std::string("--resume"), resumed ? resumed->directory : "none"}) {
      arguments.push_back(word);
    }
  }
  DT_TRY(std::optional<job::Seating> hosts, seats_of(flags, missing));
  return job_to_start(call, {.arguments = std::move(arguments),
                             .flags = flags,
                             .hosts = std::move(hosts),
                             .run_dir = role::choose_run_dir(flags, resumed),
                             .missing = missing});
}

Result<int> launch_job(const Call& call, const job::Flags& flags) {
  DT_TRY(const JobToStart job, job_to_start(call, flags));
  Console console = Console::to_stderr();
  return launch::run_in_background(console, [&](launch::Screen& screen) -> Result<int> {
    DT_TRY(launch::JobEnd end, launch::supervise(job.processes, screen));
    DT_TRY_VOID(role::complete_summary(job.run_dir, flags,
                                       {end.exit_code, std::move(end.error), std::move(end.peak_rss_bytes)}));
    return end.exit_code;
  });
}

Result<int> print_dry_run(const Call& call, const job::Flags& flags) {
  std::string table;
  std::vector<std::string> missing;
  if (flags.distributed()) {
    DT_TRY(const JobToStart job, job_to_start(call, flags, &missing));
    table = launch::dry_run_text(job.processes);
  }
  DT_TRY(const std::string text, dry_run_text(flags, table, std::move(missing)));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

Result<int> train(const Call& call) {
  DT_TRY(const job::Parsed parsed, job::parse_flags(call.arguments, call.environment));
  if (parsed.help || parsed.version) {
    std::fputs((parsed.help ? job::help_text() : fmt::format("dtrain {}\n", job::build_id())).c_str(), stdout);
    return 0;
  }
  const job::Flags& flags = parsed.flags;
  for (const std::string& note : parsed.notes) fmt::print(stderr, "note: {}\n", note);
  if (flags.launch.dry_run) return print_dry_run(call, flags);
  if (flags.launch.role == job::Role::kNone) {
    DT_TRY_VOID(check_early(flags));
    if (flags.distributed()) return launch_job(call, flags);
  }
  const SignalThread signals;
  return role::run_process(flags, signals.signals());
}

}  // namespace dtrain::cmd
