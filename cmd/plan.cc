// `dtrain plan`: measures the speeds of a job's workers, or reads them, and writes the job's groups and shares.
#include "plan/plan.h"

#include "base/console.h"
#include "launch/foreground.h"
#include "launch/supervisor.h"
#include "notes.h"
#include "plan/planned_job.h"
#include "role/worker/calibration.h"
#include "signal_thread.h"
#include "start_job.h"
#include "tool.h"

namespace dtrain::sync {

constexpr std::array<job::Named<GroupingOptions::Criterion>, 2> names_of(GroupingOptions::Criterion) {
  return {{{"tolerance", GroupingOptions::Criterion::kTolerance}, {"vrc", GroupingOptions::Criterion::kVrc}}};
}

}  // namespace dtrain::sync

namespace dtrain::cmd {

namespace {

struct PlanOptions {
  std::string from_log;
  role::CalibrationSetting calibration;
  plan::PlanOptions plan;
  bool json = false;
};

using PlanRow = job::FlagRow<PlanOptions>;

std::vector<PlanRow> speed_rows() {
  return {
      {.name = "from-log",
       .value = "FILE|DIR",
       .help = "take the speeds from the log of a run or from a run directory instead of measuring them; the flags of "
               "a run directory's run are the defaults of JOB-FLAGS",
       .bind = DT_FIELD(PlanOptions, from_log),
       .default_text = "none"},
      {.name = "probe-batches",
       .value = "N",
       .help =
           "number of batches that each worker measures after 10 batches of warm-up; the workers train without servers",
       .bind = DT_FIELD(PlanOptions, calibration.batches),
       .min = 1,
       .max = 100000},
  };
}

std::vector<PlanRow> group_rows() {
  return {
      {.name = "group-tolerance",
       .value = "X",
       .help =
           "form the smallest number of groups such that (max - min) / mean of the speeds in each group is at most X",
       .bind = DT_FIELD(PlanOptions, plan.grouping.tolerance),
       .min = 0,
       .max = 1000},
      {.name = "group-criterion",
       .value = "tolerance|vrc",
       .help = "how to choose the number of groups: tolerance (--group-tolerance) or vrc (the largest variance ratio "
               "criterion)",
       .bind = DT_FIELD(PlanOptions, plan.grouping.criterion)},
      {.name = "group-k",
       .value = "N",
       .help = "number of groups, instead of --group-criterion",
       .bind = DT_FIELD(PlanOptions, plan.grouping.count, "auto"),
       .min = 1,
       .max = job::kProcessesMax},
      {.name = "group-min-size",
       .value = "N",
       .help = "smallest size of a group; smaller groups join the neighbor that is closer in speed",
       .bind = DT_FIELD(PlanOptions, plan.grouping.min_size),
       .min = 1,
       .max = job::kProcessesMax},
  };
}

std::vector<PlanRow> plan_output_rows() {
  return {
      {.name = "latency",
       .value = "MS",
       .help = "latency between hosts in milliseconds, for the prediction",
       .bind = DT_FIELD(PlanOptions, plan.latency_ms),
       .min = 0,
       .max = 1e6},
      {.name = "bandwidth",
       .value = "GBPS",
       .help = "bandwidth of a host in each direction, in Gbit/s, for the prediction; 0 means unlimited",
       .bind = DT_FIELD(PlanOptions, plan.bandwidth),
       .min = 0,
       .max = 1e6},
      {.name = "json", .help = "print one line of JSON instead of the tables", .bind = DT_FIELD(PlanOptions, json)},
  };
}

job::FlagTable<PlanOptions> plan_flags() {
  std::vector<PlanRow> all;
  for (std::vector<PlanRow> rows : {speed_rows(), group_rows(), plan_output_rows()}) {
    for (PlanRow& row : rows) all.push_back(std::move(row));
  }
  return {std::move(all)};
}

constexpr const char* kPlanUsage =
    "dtrain plan JOB-FLAGS [FLAGS]\n"
    "Measures each worker of a job, writes its --groups-file and\n"
    "--data-sharding-file for --kv-store dist_gsync --data-allocator 1, and prints\n"
    "the expected gain.\n"
    "JOB-FLAGS are the flags of training (dtrain help train). FLAGS are:";

Result<JobToStart> calibration_to_start(const Call& call, const job::Flags& flags, const PlanOptions& options,
                                        Missing missing = nullptr) {
  std::vector<std::string> arguments = call.arguments;
  arguments.insert(arguments.begin(), "plan");
  // Although no server is started, the job is given its number of servers, so that they get their part of the hosts'
  // cores and slots, as in the real job.
  if (flags.job.num_servers > 0) arguments.insert(arguments.end(), {"-s", std::to_string(flags.job.num_servers)});
  DT_TRY(Places places, places_of(call, flags, missing));
  DT_TRY(JobToStart calibration, job_to_start(call, {.arguments = std::move(arguments),
                                                     .flags = role::calibration_flags(flags, options.calibration),
                                                     .places = std::move(places),
                                                     .run_dir = plan::calibration_dir(flags),
                                                     .missing = missing}));
  calibration.processes.stopped_hint = "stopped; no plan was written";
  return calibration;
}

// Runs the calibration job and returns its exit code. If it is 0, sets `job`.
Result<int> calibrate(const Call& call, const job::Flags& flags, const PlanOptions& options, plan::PlannedJob& job) {
  DT_TRY(const JobToStart calibration, calibration_to_start(call, flags, options));
  Console console = Console::to_stderr(flags.launch.terminal);
  DT_TRY(const int code, launch::run_in_background(console, [&](launch::Screen& screen) -> Result<int> {
           DT_TRY(const launch::JobEnd end, launch::supervise(calibration.processes, screen));
           return end.exit_code;
         }));
  if (code != 0) return code;
  DT_TRY(job, plan::job_of_calibration(flags, calibration.run_dir, options.calibration.batches));
  return 0;
}

Result<int> plan_job(const Call& call, const PlanOptions& options, job::Flags flags) {
  DT_TRY_VOID(plan::prepare_plan(flags));
  plan::PlannedJob job;
  if (!options.from_log.empty()) {
    DT_TRY(job, plan::job_of_log(flags, options.from_log));
  } else {
    DT_TRY(const int code, calibrate(call, flags, options, job));
    if (code != 0) return code;
  }
  if (!job.hint.empty()) show_note(job.hint);
  Console console = Console::to_stderr(flags.launch.terminal);
  DT_TRY(const plan::Plan plan, plan::make_plan(job, options.plan, [&](Live live) {
           console.live(std::move(live), Console::Time::clock::now());
         }));
  console.finish();
  DT_TRY(const std::string written, plan::write_plan_files(plan, plan::plan_files(flags.launch)));
  if (options.json) {
    fmt::print("{}\n", plan.json());
  } else {
    fmt::print("{}{}use these files with --kv-store dist_gsync --data-allocator 1\n", plan.text(), written);
  }
  return 0;
}

Result<> check(const job::Flags& flags, const PlanOptions& options) {
  if (flags.launch.role == job::Role::kServer)
    return fail(Code::kUsage, "--role server: dtrain plan starts no servers");
  if (options.from_log.empty() && !flags.given("num-workers")) {
    return fail(Code::kUsage, "the number of workers to measure is missing: give -n, or a log with --from-log");
  }
  return {};
}

}  // namespace

Result<int> plan(const Call& call) {
  const job::FlagTable<PlanOptions> table = plan_flags();
  if (job::asks_for_help(call.arguments)) {
    show_help(call, kPlanUsage, table.flag_helps());
    return 0;
  }
  DT_TRY(const MixedLine<PlanOptions> asked, read_mixed_line(table, call.arguments));
  std::vector<std::string> of_job = asked.job;
  if (const std::string& log = asked.options.from_log; !log.empty()) {
    DT_TRY(of_job, plan::with_flags_of_run(asked.job, log), "taking the speeds from --from-log {}", log);
  }
  DT_TRY(const job::Parsed parsed, job::parse_flags(of_job, call.environment));
  const job::Flags& flags = parsed.flags;
  const PlanOptions& options = asked.options;
  DT_TRY_VOID(check(flags, options));
  if (flags.launch.role != job::Role::kNone) {
    const SignalThread signals;
    return role::run_calibration(role::calibration_flags(flags, options.calibration), options.calibration,
                                 signals.signals());
  }
  for (const std::string& note : parsed.notes) show_note(note);
  if (!flags.launch.dry_run) return plan_job(call, options, flags);
  std::vector<std::string> missing;
  DT_TRY(const JobToStart calibration, calibration_to_start(call, flags, options, &missing));
  for (const std::string& one : missing) fmt::print("missing on this host: {}\n", one);
  std::fputs(launch::dry_run_text(calibration.processes).c_str(), stdout);
  return 0;
}

}  // namespace dtrain::cmd
