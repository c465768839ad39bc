#include "plan/planned_job.h"

#include <chrono>
#include <filesystem>

#include "base/host_limits.h"
#include "base/line_reader.h"
#include "data/loading/open.h"
#include "job/spec/job_spec.h"
#include "observe/runs/run.h"
#include "plan/own_speed.h"
#include "plan/speed_log.h"
#include "role/process/membership.h"
#include "role/process/run_dir.h"
#include "role/setup/data.h"
#include "role/setup/labels.h"
#include "role/setup/network.h"

namespace dtrain::plan {
namespace {

// Sets the members of `job` that can be determined without running its workers.
Result<> describe(job::Flags flags, PlannedJob& job) {
  const auto workers = std::ssize(job.speeds);
  flags.job.num_workers = workers;
  DT_TRY(const role::Network network, role::build_network(flags.job));
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) {
    job.bytes += element_count(parameter.shape) * static_cast<int64_t>(sizeof(float));
  }
  if (job.records == 0 || flags.job.augment.benchmark) {
    DT_TRY(const data::DataSets data, role::open_data(flags, 0, Log::silent()), "counting the records of the job");
    job.records = data.train->size();
  }
  DT_TRY(const auto places, role::places_to_be(flags));
  job.places = places.value_or(std::vector<job::WorkerPlace>(job.speeds.size(), {host_name(), ""}));
  job.epoch_samples = flags.job.augment.num_examples;
  job.batch_size = flags.job.batch_size;
  job.servers = flags.job.num_servers > 0 ? flags.job.num_servers : workers;
  job.staleness = flags.job.scheme.staleness;
  job.backup = flags.job.scheme.backup;
  return {};
}

// Returns a hint if the log at `path` is that of a run in which all workers waited for the slowest one.
std::string hint_of_run(const std::string& path) {
  const Result<job::JobSpec> spec = job::read_job_spec(path);
  if (!spec || spec->flags.num_servers == 0 || job::store_of(spec->flags).scheme != job::Scheme::kBsp) return {};
  return fmt::format(
      "{} is a run with {}, in which all workers train at the speed of the slowest worker; its metrics.jsonl does not "
      "have the time of each worker's own steps, because no epoch has ended or the workers were on several hosts",
      path, spec->flags.scheme.kv_store);
}

// If `path` is a run directory with the durations of the workers' own steps, sets the speeds from them and returns
// true.
bool take_own_speeds(const std::string& path, int64_t workers, PlannedJob& job) {
  std::error_code error;
  if (workers == 0 || !std::filesystem::is_directory(path, error)) return false;
  const Result<observe::Run> run = observe::read_run(path);
  if (!run) return false;
  std::optional<std::vector<double>> speeds = own_speeds(*run, workers);
  if (!speeds) return false;
  job.speeds = std::move(*speeds);
  job.speeds_from = fmt::format("from {}: the speed of each worker's own steps, without its waits for weights", path);
  return true;
}

Result<> take_logged_speeds(const std::string& path, int64_t workers, PlannedJob& job) {
  DT_TRY(job.speeds, read_speeds(path, workers));
  job.speeds_from = fmt::format(
      "from {}: the median of each worker's log lines except the first, including the time that it waited", path);
  job.hint = hint_of_run(path);
  return {};
}

}  // namespace

PlanFiles plan_files(const job::LaunchFlags& flags) {
  return {flags.groups_file, flags.data_sharding_file};
}

Result<> prepare_plan(job::Flags& flags) {
  DT_TRY_VOID(check_plan_files(plan_files(flags.launch)));
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const role::Network network, role::build_network(flags.job));
  DT_TRY_VOID(role::batch_labels(flags.job.augment, network.shapes));
  return {};
}

std::string calibration_dir(const job::Flags& flags) {
  const std::filesystem::path usual = job::default_run_dir(flags, std::chrono::system_clock::now());
  const std::filesystem::path parent =
      flags.launch.run_dir.empty() ? usual.parent_path() : std::filesystem::path(flags.launch.run_dir);
  return role::unused_run_dir((parent / ("plan-" + usual.filename().string())).string());
}

Result<PlannedJob> job_of_calibration(const job::Flags& flags, const std::string& run_dir, int64_t batches) {
  PlannedJob job;
  DT_TRY(job.speeds, read_speeds(run_dir, flags.job.num_workers), "reading the speeds that the workers measured");
  job.speeds_from = fmt::format("measured: the median of {} batches of {} samples; logs are in {}", batches,
                                flags.job.batch_size, run_dir);
  DT_TRY(const job::JobSpec spec, job::read_job_spec(run_dir));
  job.records = spec.records_train;
  DT_TRY_VOID(describe(flags, job));
  return job;
}

Result<std::vector<std::string>> with_flags_of_run(std::vector<std::string> arguments, const std::string& path) {
  if (job::read_job_spec(path)) {
    arguments.insert(arguments.begin(), {"--resume", path});
  } else {
    DT_TRY(const std::vector<std::string> logs, logs_at(path));
    DT_TRY_VOID(LineReader::open(logs.front()));
  }
  return arguments;
}

Result<PlannedJob> job_of_log(const job::Flags& flags, const std::string& path) {
  PlannedJob job;
  const int64_t workers = flags.given("num-workers") ? flags.job.num_workers : 0;
  if (!take_own_speeds(path, workers, job)) {
    DT_TRY_VOID(take_logged_speeds(path, workers, job));
  }
  DT_TRY_VOID(describe(flags, job));
  return job;
}

}  // namespace dtrain::plan
