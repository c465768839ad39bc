// The table of all metrics: name, unit, kind and meaning, and which processes have them. metrics.jsonl, TensorBoard,
// Prometheus and the live page show only metrics of this table. docs/reference/metrics.md is generated from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain::telemetry {

enum class Kind : uint8_t {
  kCounter,    // only grows while a process runs
  kGauge,      // the latest value
  kHistogram,  // counts of values for each of MetricInfo::bounds, and the sum of the values
};

enum class Unit : uint8_t { kNone, kSeconds, kMilliseconds, kBytes, kRatio, kSamplesPerSecond, kWatts, kCelsius };

// Which processes have a metric; the constants are added up.
inline constexpr unsigned kOnWorker = 1, kOnServer = 2, kOnScheduler = 4;
inline constexpr unsigned kOnAll = kOnWorker | kOnServer | kOnScheduler;

// In the order of the table in catalogue.cc. The order may change, because heartbeats carry the metrics by name.
enum class Metric : uint16_t {
  // Metrics of the progress of training.
  kEpoch,
  kStep,
  kSamples,
  kSeconds,
  kSamplesPerS,
  kLearningRate,
  // Metrics of the quality of the network.
  kTrainAccuracy,
  kTrainCrossEntropy,
  kTrainMetric,
  kValidationAccuracy,
  kValidationCrossEntropy,
  kValidationMetric,
  kTimeToAccuracy,
  kAccuracy,
  kValidation,
  // Metrics of how a worker spends its time.
  kPhaseSeconds,
  kStepSeconds,
  kWaitDataS,
  kWaitNetworkS,
  kWaitDataShare,
  kWaitNetworkShare,
  // Metrics of reading data.
  kDecodeThreads,
  kDecodersBusyShare,
  kReadMs,
  kHeaderMs,
  kDecodeMs,
  kColorMs,
  kRowsMs,
  kReadBytes,
  kBadRecords,
  kReadyBatches,
  // Metrics of messages between workers and servers.
  kSentBytes,
  kReceivedBytes,
  kSentMessages,
  kReceivedMessages,
  kOpenRequests,
  kUnsentRequests,
  kRoundSeconds,
  kTimedGradients,
  kLatenessSeconds,
  kUpdates,
  kPushes,
  kServerBusySeconds,
  kParkedPulls,
  kQueuedUpdates,
  kStaleness,
  kStalenessMean,
  kStalenessMax,
  kRepeatedMessages,
  kLateGradients,
  kRefusedMessages,
  kCorruptMessages,
  // Metrics of the process and its host.
  kMemoryBytes,
  kPeakMemoryBytes,
  kCpuSeconds,
  kCoreWaitSeconds,
  kGpuBusyShare,
  kGpuMemoryBytes,
  kGpuMemoryTotalBytes,
  kGpuPower,
  kGpuTemperature,
  kOpenWaitSeconds,
  kEndpoint,
  // Metrics of the job, as the scheduler sees it.
  kJobWorkers,
  kJobServers,
  kJobSteps,
  kJobEpochs,
  kJobEtaSeconds,
  kHeartbeatAgeSeconds,
  // Metrics of the run so far: the values that summary.json has at the end.
  kRunEpochs,
  kRunSamples,
  kRunSamplesPerS,
  kRunTrainAccuracy,
  kRunValidationAccuracy,
  kRunValidationCrossEntropy,
  kBestValidationAccuracy,
  kEpochsAtChance,
  kTimeToTrainAccuracy,
  kSamplesToTrainAccuracy,
  kTimeToValidationAccuracy,
  kSamplesToValidationAccuracy,
  kRunWaitDataShare,
  kRunWaitNetworkShare,
  kRunDecodersBusyShare,
  kRunImageMs,
  kCount_,
};
inline constexpr size_t kMetrics = static_cast<size_t>(Metric::kCount_);

struct MetricInfo {
  Metric metric;
  std::string_view name;  // the metric's name in metrics.jsonl
  Kind kind;
  Unit unit;
  unsigned on;  // the processes that have the metric: kOnWorker and the like, added up
  // The property by which the series of this metric differ, such as "phase"; empty: there is only one series.
  std::string_view label;
  std::string_view help;                // the meaning, in one sentence
  std::span<const double> bounds = {};  // for a histogram: upper bounds, inclusive, ascending
};

// All metrics, in the order of Metric.
std::span<const MetricInfo> catalogue();
const MetricInfo& info(Metric metric);
// Nullopt if there is no metric with that name.
std::optional<Metric> find_metric(std::string_view name);

std::string_view name_of(Unit unit);  // the name of the unit, such as "seconds"; empty for kNone
std::string_view name_of(Kind kind);  // the name of the kind, such as "counter"

// The metric's name in OpenMetrics: "dtrain_wait_data_seconds". OpenMetrics has times in seconds, so the values of a
// metric in milliseconds must be divided by 1000. The samples of a counter also end in "_total".
std::string open_metrics_name(const MetricInfo& info);

// The content of docs/reference/metrics.md.
std::string catalogue_page();

}  // namespace dtrain::telemetry
