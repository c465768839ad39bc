#include "role/process/report.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "observe/slow.h"
#include "role/setup/devices.h"
#include "telemetry/process_use.h"
#include "train/summary.h"

namespace dtrain::role {
namespace {

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

train::Summary summary_of(const std::string& job, const job::JobSpec& spec, const job::DeviceFlags& device,
                          const train::TrainOutcome& outcome, Clock::time_point started) {
  const job::JobFlags& flags = spec.flags;
  train::Summary summary;
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
  summary.epochs = outcome.position.epoch;
  summary.train_accuracy = outcome.train_accuracy;
  summary.validation_accuracy = outcome.validation_accuracy;
  summary.best_validation_accuracy = outcome.best_validation_accuracy;
  summary.time_to_train_accuracy = outcome.time_to_train_accuracy;
  summary.time_to_validation_accuracy = outcome.time_to_validation_accuracy;
  summary.epochs_at_chance = outcome.epochs_at_chance;
  summary.samples = outcome.samples;
  summary.samples_per_s = outcome.samples_per_s;
  summary.seconds = seconds_since(started);
  summary.wait_data_share = outcome.wait_data_share;
  summary.wait_network_share = outcome.wait_network_share;
  summary.data_limit = outcome.data_limit;
  summary.peak_rss_bytes["worker 0"] = telemetry::process_use().peak_memory_bytes;
  return summary;
}

std::string summary_path(const std::string& run_dir) {
  return run_dir + "/summary.json";
}

}  // namespace

job::Progress job_progress(const job::JobFlags& flags, const job::JobPlan& plan,
                           const std::vector<job::WorkerProgress>& workers) {
  // Sums over all workers: where nobody waits for the slowest one, it makes fewer steps than the others.
  const int64_t of_epoch = static_cast<int64_t>(plan.samples_per_epoch) / flags.batch_size;
  const int64_t of_job = of_epoch * flags.num_epochs;
  job::Progress progress;
  progress.steps = of_job / flags.num_workers;
  progress.epochs = flags.num_epochs;
  progress.eta_s = -1;
  if (workers.empty()) return progress;
  int64_t done = 0;
  double most_wait = 0;  // for data
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
  progress.step = std::min(done / flags.num_workers, progress.steps);
  progress.epoch = std::min(done / std::max<int64_t>(1, of_epoch), flags.num_epochs);
  const auto left = static_cast<double>((of_job - done) * flags.batch_size);
  if (progress.samples_per_s > 0) progress.eta_s = std::max(0.0, left) / progress.samples_per_s;
  return progress;
}

Result<int> report_end(const Process& process, const job::JobSpec& spec, const train::TrainOutcome& outcome,
                       const Result<train::TrainOutcome>& result, Clock::time_point started) {
  train::Summary summary = summary_of(run_name(process.run_dir.path()), spec, process.flags.device, outcome, started);
  summary.exit_code = !result           ? job::exit_code(result.error().code)
                      : outcome.stopped ? job::kExitPreempted
                                        : job::kExitOk;
  if (!result) summary.error = result.error().text();
  DT_TRY_VOID(train::write_summary(summary_path(process.run_dir.path()), summary), "writing the summary");
  if (!result) return tl::unexpected(result.error());
  const std::string& run_dir = process.run_dir.path();
  process.log.info("{} after {} epochs and {:.1f} s; see {}", outcome.stopped ? "Stopped as asked" : "Finished",
                   summary.epochs, summary.seconds, run_dir);
  // In a job of several processes the launcher logs this.
  if (outcome.stopped && process.flags.launch.role == job::Role::kNone && !process.flags.loop.test_io) {
    process.log.info("'dtrain --resume {}' goes on from the checkpoint", run_dir);
  }
  return summary.exit_code;
}

void log_time_spent(const Log& log, const observe::JobPeriod& run, const job::JobFlags& flags,
                    const std::string& run_dir) {
  if (run.workers.empty()) return;
  log.info("{}", observe::time_shares_text(observe::time_shares(run)));
  const std::string advice = observe::advice(run, {.servers = static_cast<size_t>(flags.num_servers),
                                                   .is_gsp = job::store_of(flags).scheme == job::Scheme::kGsp,
                                                   .run_dir = run_dir});
  if (!advice.empty()) log.info("{}", advice);
}

Result<> complete_summary(const std::string& run_dir, const job::Flags& flags, const JobEnd& end) {
  nlohmann::json summary;
  if (const Result<std::string> text = read_file(summary_path(run_dir))) {
    summary = parse_json(*text);
  }
  if (!summary.is_object()) {
    job::JobSpec spec;
    spec.flags = flags.job;
    summary = nlohmann::json::parse(train::to_json(summary_of(end.job, spec, flags.device, {}, Clock::now())));
    summary["peak_rss_bytes"] = nlohmann::json::object();
  }
  summary["job"] = end.job;
  summary["exit_code"] = end.exit_code;
  if (!end.error.empty()) summary["error"] = end.error;
  for (const auto& [role, bytes] : end.peak_rss_bytes) summary["peak_rss_bytes"][role] = bytes;
  return write_file_atomic(summary_path(run_dir), json_text(summary, 2) + "\n");
}

}  // namespace dtrain::role
