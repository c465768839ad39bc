#include "telemetry/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace dtrain::telemetry {
namespace {

// Bounds for the times of steps and rounds, from a tenth of a millisecond to a minute.
constexpr std::array kTimeBounds = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0};
constexpr std::array kStalenessBounds = {1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0};

using enum Metric;
using enum Kind;

constexpr std::array kCatalogue = {
    // Metrics of the progress of training.
    MetricInfo{kEpoch, "epoch", kGauge, Unit::kNone, kOnWorker, "", "The current epoch, from 0."},
    MetricInfo{kStep, "step", kGauge, Unit::kNone, kOnWorker | kOnServer, "",
               "On a worker: the number of its next step, from 0 at the start of the run. On a server: the number of "
               "its updates."},
    MetricInfo{kSamples, "samples", kCounter, Unit::kNone, kOnWorker, "",
               "Number of samples of all workers that have been applied to the weights since the start of the run."},
    MetricInfo{kSeconds, "seconds", kGauge, Unit::kSeconds, kOnWorker, "",
               "Wall time since training began in this process."},
    MetricInfo{kSamplesPerS, "samples_per_s", kGauge, Unit::kSamplesPerSecond, kOnWorker | kOnScheduler, "",
               "Throughput over the last window: of this worker, or on the scheduler of all workers together."},
    MetricInfo{kLearningRate, "lr", kGauge, Unit::kNone, kOnWorker, "", "The learning rate of the next update."},
    // Metrics of the quality of the network.
    MetricInfo{kTrainAccuracy, "train_accuracy", kGauge, Unit::kRatio, kOnWorker, "",
               "Share of the training rows that were classified correctly in the last window of --disp-batches steps; "
               "in the record of an epoch, in the whole epoch."},
    MetricInfo{
        kTrainCrossEntropy, "train_cross_entropy", kGauge, Unit::kNone, kOnWorker, "",
        "Mean cross-entropy of the training rows in the last window; in the record of an epoch, in the whole epoch."},
    MetricInfo{kTrainMetric, "train_metric", kGauge, Unit::kNone, kOnWorker, "metric",
               "Every training metric of the log, such as top_k_accuracy_5, in the last window; in the record of an "
               "epoch, in the whole epoch."},
    MetricInfo{
        kValidationAccuracy, "validation_accuracy", kGauge, Unit::kRatio, kOnWorker, "",
        "Share of the validation rows that were classified correctly in the last validation. Only rank 0 reports it."},
    MetricInfo{kValidationCrossEntropy, "validation_cross_entropy", kGauge, Unit::kNone, kOnWorker, "",
               "Mean cross-entropy of the validation rows in the last validation. Only rank 0 reports it."},
    MetricInfo{kValidationMetric, "validation_metric", kGauge, Unit::kNone, kOnWorker, "metric",
               "Every validation metric of the log, in the last validation. Only rank 0 reports them."},
    MetricInfo{kTimeToAccuracy, "time_to_accuracy", kGauge, Unit::kSeconds, kOnWorker, "",
               "Wall time until the level 'accuracy' was reached (--log-time-to). Only rank 0 reports it."},
    MetricInfo{kAccuracy, "accuracy", kGauge, Unit::kRatio, kOnWorker, "",
               "The accuracy level that 'time_to_accuracy' refers to."},
    MetricInfo{kValidation, "validation", kGauge, Unit::kNone, kOnWorker, "",
               "1 if 'time_to_accuracy' refers to the validation accuracy, 0 if it refers to the training accuracy."},
    // Metrics of how a worker spends its time.
    MetricInfo{
        kPhaseSeconds, "phase_s", kCounter, Unit::kSeconds, kOnWorker, "phase",
        "Time that the step loop has spent in each phase: data_wait, forward, backward, push, pull_wait, update, "
        "validation, checkpoint, other."},
    MetricInfo{kStepSeconds, "step_s", kHistogram, Unit::kSeconds, kOnWorker, "", "Durations of the training steps.",
               kTimeBounds},
    MetricInfo{kWaitDataS, "wait_data_s", kGauge, Unit::kSeconds, kOnWorker, "",
               "Time of the last window that was spent waiting for batches."},
    MetricInfo{kWaitNetworkS, "wait_network_s", kGauge, Unit::kSeconds, kOnWorker, "",
               "Time of the last window that was spent waiting for other devices and processes."},
    MetricInfo{
        kWaitDataShare, "wait_data_share", kGauge, Unit::kRatio, kOnWorker | kOnScheduler, "",
        "Share of the steps' time that was spent waiting for batches; on the scheduler, the mean of the workers."},
    MetricInfo{kWaitNetworkShare, "wait_network_share", kGauge, Unit::kRatio, kOnWorker | kOnScheduler, "",
               "Share of the steps' time that was spent waiting for other devices and processes; on the scheduler, the "
               "mean of the workers."},
    // Metrics of reading data.
    MetricInfo{kDecodeThreads, "decode_threads", kGauge, Unit::kNone, kOnWorker, "",
               "Threads that decode training images."},
    MetricInfo{kDecodersBusyShare, "decoders_busy_share", kGauge, Unit::kRatio, kOnWorker, "",
               "Share of the decode threads' time in which they were busy."},
    MetricInfo{kReadMs, "read_ms", kGauge, Unit::kMilliseconds, kOnWorker, "",
               "Time to read one image's bytes from its file."},
    MetricInfo{kHeaderMs, "header_ms", kGauge, Unit::kMilliseconds, kOnWorker, "",
               "Time to read one image's header and to plan its augmentation."},
    MetricInfo{kDecodeMs, "decode_ms", kGauge, Unit::kMilliseconds, kOnWorker, "", "Time to decode one image."},
    MetricInfo{kColorMs, "color_ms", kGauge, Unit::kMilliseconds, kOnWorker, "",
               "Time to change one image's colors and shape."},
    MetricInfo{kRowsMs, "rows_ms", kGauge, Unit::kMilliseconds, kOnWorker, "",
               "Time to resize one image and to copy it into its batch."},
    MetricInfo{kReadBytes, "read_bytes", kCounter, Unit::kBytes, kOnAll, "",
               "Bytes that this process has read from disks, as counted by the kernel, so reads from its page cache do "
               "not count."},
    MetricInfo{kBadRecords, "bad_records", kCounter, Unit::kNone, kOnWorker, "",
               "Training records that were skipped because they are broken."},
    MetricInfo{kReadyBatches, "ready_batches", kGauge, Unit::kNone, kOnWorker, "",
               "Complete training batches that wait for the step loop; a value that is often 0 means that reading "
               "limits the speed."},
    // Metrics of messages between workers and servers.
    MetricInfo{kSentBytes, "sent_bytes", kCounter, Unit::kBytes, kOnWorker, "peer",
               "Bytes of values sent to each peer, without headers."},
    MetricInfo{kReceivedBytes, "received_bytes", kCounter, Unit::kBytes, kOnWorker, "peer",
               "Bytes of values received from each peer, without headers."},
    MetricInfo{kSentMessages, "sent_messages", kCounter, Unit::kNone, kOnWorker, "peer", "Messages sent to each peer."},
    MetricInfo{kReceivedMessages, "received_messages", kCounter, Unit::kNone, kOnWorker, "peer",
               "Messages received from each peer."},
    MetricInfo{kOpenRequests, "open_requests", kGauge, Unit::kNone, kOnWorker, "",
               "Requests to the servers that have no answer yet; each is for one slice."},
    MetricInfo{kUnsentRequests, "unsent_requests", kGauge, Unit::kNone, kOnWorker, "",
               "Requests to the servers in the queue of the thread that sends them."},
    MetricInfo{kRoundSeconds, "round_s", kHistogram, Unit::kSeconds, kOnServer, "",
               "Times from the first gradient of a round to the update, for each slice.", kTimeBounds},
    MetricInfo{kTimedGradients, "timed_gradients", kCounter, Unit::kNone, kOnServer, "peer",
               "Number of gradients of each worker whose lateness was measured; only the gradients of one slice of the "
               "server are measured."},
    MetricInfo{
        kLatenessSeconds, "lateness_s", kCounter, Unit::kSeconds, kOnServer, "peer",
        "Sum of the times by which each worker's measured gradients arrived after the first gradient of their round."},
    MetricInfo{kUpdates, "updates", kCounter, Unit::kNone, kOnServer, "",
               "Updates of slices that the server has made."},
    MetricInfo{kPushes, "pushes", kCounter, Unit::kNone, kOnServer, "",
               "Gradients of slices that the server has added to a sum or applied."},
    MetricInfo{kServerBusySeconds, "server_busy_s", kCounter, Unit::kSeconds, kOnServer, "",
               "Time that the server's threads have spent on sums, updates and answers."},
    MetricInfo{kParkedPulls, "parked_pulls", kGauge, Unit::kNone, kOnServer, "",
               "Requests for weights that wait until a slower worker's gradient arrives."},
    MetricInfo{kQueuedUpdates, "queued_updates", kGauge, Unit::kNone, kOnServer, "",
               "Updates of slices that wait for a thread of the server."},
    MetricInfo{
        kStaleness, "staleness", kHistogram, Unit::kNone, kOnServer, "",
        "Number of updates by staleness: 1 means that there was no other update between a worker's pull and its push.",
        kStalenessBounds},
    MetricInfo{kStalenessMean, "staleness_mean", kGauge, Unit::kNone, kOnServer, "", "Mean staleness of the updates."},
    MetricInfo{kStalenessMax, "staleness_max", kGauge, Unit::kNone, kOnServer, "", "Largest staleness of the updates."},
    MetricInfo{kRepeatedMessages, "repeated_messages", kCounter, Unit::kNone, kOnServer, "",
               "Gradients that arrived again and were dropped."},
    MetricInfo{kLateGradients, "late_gradients", kCounter, Unit::kNone, kOnServer, "",
               "Gradients that arrived after the end of their round."},
    MetricInfo{kRefusedMessages, "refused_messages", kCounter, Unit::kNone, kOnServer, "",
               "Messages that the server refused."},
    MetricInfo{kCorruptMessages, "corrupt_messages", kCounter, Unit::kNone, kOnServer, "",
               "Messages that had a wrong checksum."},
    // Metrics of the process and its host.
    MetricInfo{kMemoryBytes, "memory_bytes", kGauge, Unit::kBytes, kOnAll, "", "Resident memory of the process."},
    MetricInfo{kPeakMemoryBytes, "peak_memory_bytes", kGauge, Unit::kBytes, kOnAll, "",
               "Largest resident memory of the process so far."},
    MetricInfo{kCpuSeconds, "cpu_s", kCounter, Unit::kSeconds, kOnAll, "", "CPU time of all threads of the process."},
    MetricInfo{kCoreWaitSeconds, "core_wait_s", kCounter, Unit::kSeconds, kOnAll, "",
               "Sum of the times in which threads of the process were ready to run but had no core. It grows if other "
               "programs use the cores, or if a limit on CPU time slows down the process."},
    MetricInfo{kGpuBusyShare, "gpu_busy_share", kGauge, Unit::kRatio, kOnWorker, "device",
               "Share of the last second (or of a shorter period) in which a kernel of any process ran on each GPU. "
               "The label is the number of the GPU as in --gpus, as for all GPU metrics."},
    MetricInfo{kGpuMemoryBytes, "gpu_memory_bytes", kGauge, Unit::kBytes, kOnWorker, "device",
               "Memory of each GPU that is in use by any process."},
    MetricInfo{kGpuMemoryTotalBytes, "gpu_memory_total_bytes", kGauge, Unit::kBytes, kOnWorker, "device",
               "Total memory of each GPU."},
    MetricInfo{kGpuPower, "gpu_power_w", kGauge, Unit::kWatts, kOnWorker, "device", "Power that each GPU draws."},
    MetricInfo{kGpuTemperature, "gpu_temperature_c", kGauge, Unit::kCelsius, kOnWorker, "device",
               "Temperature of each GPU."},
    MetricInfo{kOpenWaitSeconds, "open_wait_s", kGauge, Unit::kSeconds, kOnWorker | kOnServer, "",
               "Age of the oldest open wait of the process; 0 if nothing waits."},
    MetricInfo{kEndpoint, "endpoint", kGauge, Unit::kNone, kOnAll, "address",
               "1 for the address at which the process serves its own metrics (--metrics-addr); with TLS, the address "
               "begins with https://."},
    // Metrics of the job.
    MetricInfo{kJobWorkers, "job_workers", kGauge, Unit::kNone, kOnScheduler, "", "Workers that are alive."},
    MetricInfo{kJobServers, "job_servers", kGauge, Unit::kNone, kOnScheduler, "", "Servers that are alive."},
    MetricInfo{kJobSteps, "job_steps", kGauge, Unit::kNone, kOnScheduler, "what",
               "Steps of a worker, on average: done so far, and in total."},
    MetricInfo{kJobEpochs, "job_epochs", kGauge, Unit::kNone, kOnScheduler, "what",
               "Epochs: done so far, and in total."},
    MetricInfo{kJobEtaSeconds, "job_eta_s", kGauge, Unit::kSeconds, kOnScheduler, "",
               "Estimated time until the job ends."},
    MetricInfo{kHeartbeatAgeSeconds, "heartbeat_age_s", kGauge, Unit::kSeconds, kOnScheduler, "member",
               "Time since the last heartbeat of each process."},
    // Metrics of the run so far.
    MetricInfo{kRunEpochs, "run_epochs", kGauge, Unit::kNone, kOnWorker, "",
               "Epochs that have ended since the start of the run."},
    MetricInfo{kRunSamples, "run_samples", kCounter, Unit::kNone, kOnWorker, "",
               "Samples of all workers that were applied since training began in this process."},
    MetricInfo{kRunSamplesPerS, "run_samples_per_s", kGauge, Unit::kSamplesPerSecond, kOnWorker, "",
               "'run_samples' divided by the time of the steps, without validation."},
    MetricInfo{kRunTrainAccuracy, "run_train_accuracy", kGauge, Unit::kRatio, kOnWorker, "",
               "Training accuracy of the last epoch that has ended."},
    MetricInfo{kRunValidationAccuracy, "run_validation_accuracy", kGauge, Unit::kRatio, kOnWorker, "",
               "Validation accuracy after the last epoch that has ended."},
    MetricInfo{kRunValidationCrossEntropy, "run_validation_cross_entropy", kGauge, Unit::kNone, kOnWorker, "",
               "Mean cross-entropy of the validation rows after the last epoch that has ended."},
    MetricInfo{kBestValidationAccuracy, "best_validation_accuracy", kGauge, Unit::kRatio, kOnWorker, "",
               "Best validation accuracy after an epoch, in this process."},
    MetricInfo{kEpochsAtChance, "epochs_at_chance", kCounter, Unit::kNone, kOnWorker, "",
               "Epochs whose training loss was no better than guessing."},
    MetricInfo{kTimeToTrainAccuracy, "time_to_train_accuracy", kGauge, Unit::kSeconds, kOnWorker, "accuracy",
               "Wall time until the training accuracy reached each level (--log-time-to). Only rank 0 reports it."},
    MetricInfo{kSamplesToTrainAccuracy, "samples_to_train_accuracy", kGauge, Unit::kNone, kOnWorker, "accuracy",
               "Samples until the training accuracy reached each level (--log-time-to). Only rank 0 reports it."},
    MetricInfo{kTimeToValidationAccuracy, "time_to_validation_accuracy", kGauge, Unit::kSeconds, kOnWorker, "accuracy",
               "Wall time until the validation accuracy reached each level (--log-time-to). Only rank 0 reports it."},
    MetricInfo{kSamplesToValidationAccuracy, "samples_to_validation_accuracy", kGauge, Unit::kNone, kOnWorker,
               "accuracy",
               "Samples until the validation accuracy reached each level (--log-time-to). Only rank 0 reports it."},
    MetricInfo{kRunWaitDataShare, "run_wait_data_share", kGauge, Unit::kRatio, kOnWorker, "",
               "Share of the time of all steps so far that was spent waiting for batches."},
    MetricInfo{kRunWaitNetworkShare, "run_wait_network_share", kGauge, Unit::kRatio, kOnWorker, "",
               "Share of the time of all steps so far that was spent waiting for other devices and processes."},
    MetricInfo{kRunDecodersBusyShare, "run_decoders_busy_share", kGauge, Unit::kRatio, kOnWorker, "",
               "Share of the decode threads' time so far in which they were busy."},
    MetricInfo{
        kRunImageMs, "run_image_ms", kGauge, Unit::kMilliseconds, kOnWorker, "stage",
        "Time per image of each stage of reading (read, header, decode, color, rows), averaged over the run so far."},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kCatalogue.size(); i++) {
    if (static_cast<size_t>(kCatalogue[i].metric) != i) return false;
  }
  return kCatalogue.size() == kMetrics;
}
static_assert(in_order(), "the catalogue has each metric once, in the order of Metric");

std::string processes_of(const MetricInfo& info) {
  if (info.on == kOnAll) return "all";
  std::string text;
  const auto add = [&](unsigned role, const char* name) {
    if ((info.on & role) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(kOnWorker, "worker");
  add(kOnServer, "server");
  add(kOnScheduler, "scheduler");
  return text;
}

std::string row_of(const MetricInfo& info) {
  const std::string label = info.label.empty() ? "" : fmt::format("`{}`", info.label);
  return fmt::format("| `{}` | `{}` | {} | {} | {} | {} | {} |\n", info.name, open_metrics_name(info),
                     name_of(info.kind), name_of(info.unit), label, processes_of(info), info.help);
}

}  // namespace

std::span<const MetricInfo> catalogue() {
  return kCatalogue;
}

const MetricInfo& info(Metric metric) {
  return kCatalogue.at(static_cast<size_t>(metric));
}

std::optional<Metric> find_metric(std::string_view name) {
  const auto* const found =
      std::find_if(kCatalogue.begin(), kCatalogue.end(), [&](const MetricInfo& metric) { return metric.name == name; });
  if (found == kCatalogue.end()) return std::nullopt;
  return found->metric;
}

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::kNone: return "";
    case Unit::kSeconds: return "seconds";
    case Unit::kMilliseconds: return "milliseconds";
    case Unit::kBytes: return "bytes";
    case Unit::kRatio: return "ratio";
    case Unit::kSamplesPerSecond: return "samples per second";
    case Unit::kWatts: return "watts";
    case Unit::kCelsius: return "degrees Celsius";
  }
  return "";
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case kCounter: return "counter";
    case kGauge: return "gauge";
    case kHistogram: return "histogram";
  }
  return "";
}

std::string open_metrics_name(const MetricInfo& info) {
  std::string name(info.name);
  const auto replace_end = [&](std::string_view end, std::string_view by) {
    if (name.ends_with(end)) name.resize(name.size() - end.size());
    if (!name.ends_with(by)) name += by;
  };
  switch (info.unit) {
    case Unit::kSeconds: replace_end("_s", name == "seconds" ? "" : "_seconds"); break;
    case Unit::kMilliseconds: replace_end("_ms", "_seconds"); break;
    case Unit::kBytes: replace_end("", "_bytes"); break;
    case Unit::kRatio: replace_end("_share", "_ratio"); break;
    case Unit::kSamplesPerSecond: replace_end("_s", "_second"); break;
    case Unit::kWatts: replace_end("_w", "_watts"); break;
    case Unit::kCelsius: replace_end("_c", "_celsius"); break;
    case Unit::kNone: break;
  }
  return "dtrain_" + name;
}

std::string catalogue_page() {
  std::string text =
      "# Metrics\n\n"
      "This page is generated from the table in `lib/telemetry/catalogue.cc`: do not edit it, but run "
      "`DTRAIN_REWRITE_GOLDEN=1 build/test/telemetry/telemetry_test`.\n\n"
      "A line of `metrics.jsonl` has the names of the first column ([format](../formats.md#run-directory)). The values "
      "of "
      "a metric with a label are one object, by the label's value. OpenMetrics has the names of the second column "
      "([monitoring.md](../monitoring.md#prometheus-and-grafana)), with the labels `job`, `role`, `rank` and `host`; "
      "times are in seconds there, and samples of a counter end with "
      "`_total`.\n\n"
      "| name | OpenMetrics | kind | unit | label | processes | meaning |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const MetricInfo& metric : kCatalogue) text += row_of(metric);
  return text;
}

}  // namespace dtrain::telemetry
