// `dtrain [train]`: trains in this process, or starts the processes of a job.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "base/host_limits.h"
#include "batch_job.h"
#include "cluster/batch_job.h"
#include "command.h"
#include "dry_run.h"
#include "job/flags/rows.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "job/spec/job_plan.h"
#include "job/spec/resume.h"
#include "launch/job_record.h"
#include "launch/make_job.h"
#include "notes.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/process/observer.h"
#include "role/process/run_dir.h"
#include "role/role.h"
#include "role/setup/data.h"
#include "role/setup/network.h"
#include "role/setup/pretrained.h"
#include "role/setup/shares.h"
#include "role/worker/planned_memory.h"
#include "signal_thread.h"
#include "start_job.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

// Detects errors that would occur in every process of the job, so that they are reported only once, before a process is
// started or a run directory is created.
Result<> check_early(job::Flags flags) {
  const job::LoopFlags& loop = flags.loop;
  if (loop.load_epoch && loop.model_prefix.empty() && flags.launch.run_dir.empty()) {
    return fail(Code::kUsage,
                "--load-epoch {}: the checkpoint's name is missing: give --model-prefix PREFIX to load "
                "PREFIX-{:04}.params, or --run-dir to load the checkpoint in that run directory",
                *loop.load_epoch, *loop.load_epoch);
  }
  DT_TRY_VOID(role::check_observed(flags.launch));
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const role::Network network, role::build_network(flags.job));
  if (!flags.launch.on_other_hosts()) {
    DT_TRY(const bool validates, role::check_data_files(flags));
    DT_TRY(const std::string warning,
           role::judge_memory(
               {.flags = flags, .network = network, .validates = validates, .host = role::started_here(flags)},
               usable_memory()));
    if (!warning.empty()) show_note(warning);
    if (loop.resume.empty()) DT_TRY_VOID(role::pretrained_params(loop));
  }
  DT_TRY_VOID(role::initializer_spec(flags.job));
  DT_TRY_VOID(role::read_sharding(flags));
  DT_TRY(const std::optional<job::GroupsFile> groups, role::read_groups(flags));
  DT_TRY(const auto places, role::places_to_be(flags));
  // If processes run on other hosts, the groups file may contain addresses that are not known yet, so it is not checked
  // here.
  const bool here = !flags.launch.on_other_hosts();
  if (here) DT_TRY_VOID(role::check_tls(flags.launch));
  if (groups && places && here) {
    DT_TRY(const std::vector<int64_t> group_of, job::parse_groups(*groups, *places, flags.job.scheme.ungrouped));
    DT_TRY_VOID(job::check_groups(flags.job, group_of));
  }
  return {};
}

// The flags that --resume took from the run directory are passed to the processes explicitly; they precede the user's
// flags.
std::vector<std::string> arguments_of_processes(const Call& call, const job::Flags& flags) {
  std::vector<std::string> arguments = job::recalled_arguments(flags);
  arguments.insert(arguments.end(), call.arguments.begin(), call.arguments.end());
  const bool resumes = flags.given("resume") || flags.given("retrain");
  if (resumes) {
    const std::string& directory = flags.loop.resume;
    arguments.insert(arguments.end(), {"--retrain=0", "--resume", directory.empty() ? "none" : directory});
  }
  return arguments;
}

Result<JobToStart> job_for_dry_run(const Call& call, const job::Flags& flags, const std::string& run_dir,
                                   Missing missing) {
  const bool is_submission = cluster::is_submitted(flags, call.environment);
  DT_TRY(Places places, is_submission ? places_to_come(flags) : places_of(call, flags, missing));
  return job_to_start(call, {.arguments = arguments_of_processes(call, flags),
                             .flags = flags,
                             .places = std::move(places),
                             .run_dir = run_dir,
                             .missing = missing});
}

Result<int> launch_job(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed) {
  DT_TRY(const role::RunDir run_dir, role::RunDir::claim(flags, resumed));
  DT_TRY(std::optional<job::HostFile> hosts, job::read_host_file(flags));
  std::vector<job::SshAddress> last_hosts;  // the other hosts of the last run, in the order of Command::host_number
  const auto make = [&](int64_t restart) -> Result<launch::Job> {
    DT_TRY(Places places, places_on(hosts, call, flags));
    last_hosts.clear();
    if (places.hosts && flags.launch.on_other_hosts()) last_hosts = launch::distinct_hosts(*places.hosts);
    DT_TRY(JobToStart job, job_to_start(call, {.arguments = arguments_of_processes(call, flags),
                                               .flags = flags,
                                               .places = std::move(places),
                                               .run_dir = run_dir.path(),
                                               .restart = restart}));
    return std::move(job.processes);
  };
  const auto use_spare = [&](size_t host_number) -> std::optional<std::string> {
    if (!hosts || host_number == 0 || host_number > last_hosts.size()) return std::nullopt;
    const job::SshAddress& lost = last_hosts[host_number - 1];
    const std::optional<std::string> spare = job::use_spare(*hosts, lost);
    if (!spare) return std::nullopt;
    return fmt::format("the spare host {} takes the place of {}", *spare, launch::host_name(lost));
  };
  return run_job({.restarts_max = flags.launch.max_restarts, .make = make, .use_spare = use_spare}, flags, run_dir);
}

Result<int> print_dry_run(const Call& call, const job::Flags& flags, const std::optional<role::Resumed>& resumed) {
  std::string table;
  std::vector<std::string> missing;
  if (flags.distributed()) {
    const std::string run_dir = role::choose_run_dir(flags, resumed);
    DT_TRY(const JobToStart job, job_for_dry_run(call, flags, run_dir, &missing));
    table = launch::dry_run_text(job.processes);
    if (cluster::is_submitted(flags, call.environment)) {
      DT_TRY(const std::string submission, submission_text(call, flags, run_dir));
      table += submission;
    }
  }
  DT_TRY(const std::string text, dry_run_text(flags, table, std::move(missing)));
  std::fputs(text.c_str(), stdout);
  return 0;
}

// Records a process that trains without a launcher, so that `dtrain ps` lists it and `dtrain kill` can end it. If this
// fails, the training continues anyway.
std::optional<launch::JobRecord> record_process(const Call& call, const std::string& run_dir) {
  Result<launch::JobRecord> record =
      launch::JobRecord::create(launch::record_root(call.environment), launch::job_name(run_dir));
  const Result<> added = record.and_then([](launch::JobRecord& made) { return made.add("worker", 0, ::getpid()); });
  if (added) return std::move(*record);
  show_note(fmt::format("`dtrain ps` will not list this run: {}", added.error().message));
  return std::nullopt;
}

Result<int> run_process(const Call& call, const job::Flags& flags) {
  const SignalThread signals;
  std::optional<launch::JobRecord> record;  // the record of this process; its destructor removes it
  return role::run_process(flags, signals.signals(), [&](const std::string& run_dir) {
    if (auto made = record_process(call, run_dir)) record.emplace(*std::move(made));
  });
}

}  // namespace

Result<int> train(const Call& call) {
  DT_TRY(const job::Parsed parsed, job::parse_flags(call.arguments, call.environment));
  if (parsed.help) {
    show_help(call, "dtrain [train] FLAGS", job::training_flags().flag_helps());
    return 0;
  }
  if (parsed.version) {
    fmt::print("dtrain {}\n", job::build_id());
    return 0;
  }
  job::Flags flags = parsed.flags;
  for (const std::string& note : parsed.notes) show_note(note);
  note_threads(flags, call.environment);
  DT_TRY_VOID(role::apply_pretrained(flags));
  if (flags.launch.role != job::Role::kNone && !flags.launch.dry_run) {
    DT_TRY_VOID(role::check_tls(flags.launch));
    return run_process(call, flags);
  }
  if (flags.distributed() || flags.launch.dry_run) unblock_early_signals();
  if (flags.launch.launcher == "print") return print_files(call, flags);
  // The pods read the data, which need not be on this host.
  if (flags.launch.launcher == "kubernetes") return run_in_kubernetes(call, flags);
  DT_TRY(const role::ResumeSearch search, role::find_resumed(flags));
  for (const std::string& note : search.notes) show_note(note);
  // The result of the search is stored in the flags, because a second search would find the new run.
  flags.loop.resume = search.run ? search.run->directory : "";
  if (search.run) job::take_kept_checkpoints(search.run->spec, flags);
  flags.loop.retrain = false;
  if (flags.launch.dry_run) return print_dry_run(call, flags, search.run);
  if (search.is_finished) return job::kExitOk;
  DT_TRY_VOID(check_early(flags));
  if (!flags.distributed()) return run_process(call, flags);
  return cluster::is_submitted(flags, call.environment) ? submit_job(call, flags, search.run)
                                                        : launch_job(call, flags, search.run);
}

}  // namespace dtrain::cmd
