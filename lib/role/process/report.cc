#include "role/process/report.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "role/process/summary.h"
#include "role/setup/devices.h"

namespace dtrain::role {
namespace {

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

Summary summary_of(const std::string& job, const job::JobSpec& spec, const job::DeviceFlags& device,
                   telemetry::Snapshot metrics, Clock::time_point started) {
  const job::JobFlags& flags = spec.flags;
  Summary summary;
  summary.job = job;
  summary.job_hash = fmt::format("{:016x}", job::hash(spec));
  summary.build = job::build_id();
  summary.network = flags.network.network;
  summary.store = flags.scheme.kv_store;
  summary.workers = flags.num_workers;
  summary.servers = flags.num_servers;
  for (int64_t worker = 0; worker < flags.num_workers; worker++) {
    const std::vector<std::string> names = device_names(device);
    summary.devices.insert(summary.devices.end(), names.begin(), names.end());
  }
  summary.dtype = flags.dtype;
  summary.seconds = seconds_since(started);
  summary.metrics = std::move(metrics);
  return summary;
}

// Adds a finding of the scheduler. The summary lists all slow processes and all changes of the workers, but has only
// one finding of each other kind.
void add_finding(const nlohmann::json& finding, nlohmann::json& summary) {
  if (!finding.is_object()) return;
  for (const auto& [key, value] : finding.items()) {
    if (key == "slow") {
      summary["slow"].push_back(value);
    } else if (key == "change") {
      summary["changes"].push_back(value);
    } else {
      summary[key] = value;
    }
  }
}

std::string summary_path(const std::string& run_dir) {
  return run_dir + "/summary.json";
}

}  // namespace

job::Progress job_progress(const job::JobFlags& flags, const job::JobPlan& plan,
                           const std::vector<job::WorkerProgress>& workers, job::TimeLeft& left) {
  // The steps are computed from sums over all workers, because in schemes that do not wait for the slowest worker, that
  // worker makes fewer steps.
  const int64_t of_epoch = static_cast<int64_t>(plan.samples_per_epoch) / flags.batch_size;
  const int64_t of_job = of_epoch * flags.num_epochs;
  job::Progress progress;
  progress.steps = of_job / flags.num_workers;
  progress.epochs = flags.num_epochs;
  progress.eta_s = -1;
  if (workers.empty()) return progress;
  int64_t done = 0;
  double most_wait = 0;  // longest wait for data of any worker
  for (const job::WorkerProgress& worker : workers) {
    done += static_cast<int64_t>(worker.step);
    progress.samples_per_s += worker.samples_per_s;
    progress.wait_data += worker.wait_data_share / static_cast<double>(workers.size());
    progress.wait_network += worker.wait_network_share / static_cast<double>(workers.size());
    progress.checkpoint_s = std::max(progress.checkpoint_s, worker.checkpoint_s);
    if (worker.wait_data_share > most_wait) {
      most_wait = worker.wait_data_share;
      progress.data_stage = worker.data_stage;
    }
  }
  job::set_workers(workers, progress);
  progress.step = std::min(done / flags.num_workers, progress.steps);
  progress.epoch = std::min(done / std::max<int64_t>(1, of_epoch), flags.num_epochs);
  const job::JobPace pace{.steps = done,
                          .steps_of_epoch = std::max<int64_t>(1, of_epoch),
                          .epochs = flags.num_epochs,
                          .steps_per_s = progress.samples_per_s / static_cast<double>(flags.batch_size)};
  progress.eta_s = left.update(pace, Clock::now()).value_or(-1);
  return progress;
}

Result<int> report_end(const Process& process, const job::JobSpec& spec, const Result<train::TrainOutcome>& outcome,
                       Clock::time_point started, const observe::Conclusion& conclusion) {
  Summary summary =
      summary_of(run_name(process.run_dir.path()), spec, process.flags.device, process.registry->snapshot(), started);
  summary.conclusion = conclusion;
  summary.exit_code = !outcome           ? job::exit_code(outcome.error().code)
                      : outcome->stopped ? job::kExitPreempted
                                         : job::kExitOk;
  if (!outcome) summary.error = outcome.error().text();
  const Result<> written = write_file_atomic(summary_path(process.run_dir.path()), to_json(summary));
  if (!outcome) {
    if (!written) process.log.warn("the run failed, and its summary could not be written: {}", written.error().line());
    return tl::unexpected(outcome.error());
  }
  DT_TRY_VOID(written, "writing the summary");
  const std::string& run_dir = process.run_dir.path();
  const int64_t epochs = outcome->position.epoch;
  process.log.info("{} after {} epoch{} and {:.1f} s; see {}", outcome->stopped ? "Stopped as asked" : "Finished",
                   epochs, epochs == 1 ? "" : "s", summary.seconds, run_dir);
  // In a job of several processes, the launcher logs how to continue.
  if (outcome->stopped && process.flags.launch.role == job::Role::kNone && !process.flags.loop.test_io) {
    process.log.info("'dtrain --resume {}' continues from the checkpoint", shell_word(run_dir));
  }
  return summary.exit_code;
}

observe::JobForm job_form(const Process& process, const job::JobFlags& flags) {
  const job::Scheme scheme = job::store_of(flags).scheme;
  return {.servers = static_cast<size_t>(flags.num_servers),
          .waits_for_slow = scheme == job::Scheme::kBsp || scheme == job::Scheme::kSsp,
          .decoders_are_tuned = process.flags.data.data_threads_auto,
          .run_dir = process.run_dir.path()};
}

observe::Conclusion conclude_run(const Log& log, const observe::JobPeriod& run, const observe::JobForm& form) {
  observe::Conclusion conclusion = observe::conclude(run, form);
  if (conclusion.time_shares) log.info("{}", observe::time_shares_text(*conclusion.time_shares));
  if (!conclusion.advice.empty()) log.info("{}", conclusion.advice);
  return conclusion;
}

Result<> complete_summary(const std::string& run_dir, const job::Flags& flags, const JobEnd& end) {
  nlohmann::json summary;
  if (const Result<std::string> text = read_file(summary_path(run_dir))) {
    summary = parse_json(*text);
  }
  if (!summary.is_object()) {
    job::JobSpec spec;
    spec.flags = flags.job;
    summary = nlohmann::json::parse(to_json(summary_of(end.job, spec, flags.device, {}, Clock::now())));
  }
  summary["job"] = end.job;
  summary["exit_code"] = end.exit_code;
  if (!end.error.empty()) summary["error"] = end.error;
  for (const auto& [role, bytes] : end.peak_rss_bytes) summary["peak_rss_bytes"][role] = bytes;
  summary["slow"] = nlohmann::json::array();
  summary["changes"] = nlohmann::json::array();
  for (const std::string& finding : end.findings) add_finding(parse_json(finding), summary);
  if (!end.restarts.empty()) summary["restarts"] = nlohmann::json::array();
  for (const JobEnd::Restart& restart : end.restarts) {
    summary["restarts"].push_back({{"cause", restart.cause}, {"step", restart.step}});
    if (restart.seconds) summary["restarts"].back()["seconds"] = *restart.seconds;
  }
  return write_file_atomic(summary_path(run_dir), json_text(summary, 2) + "\n");
}

}  // namespace dtrain::role
