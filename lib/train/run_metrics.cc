#include "train/run_metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace dtrain::train {
namespace {

using telemetry::Metric;

Metric time_of(DataSet of) {
  return of == DataSet::kTraining ? Metric::kTimeToTrainAccuracy : Metric::kTimeToValidationAccuracy;
}

Metric samples_of(DataSet of) {
  return of == DataSet::kTraining ? Metric::kSamplesToTrainAccuracy : Metric::kSamplesToValidationAccuracy;
}

}  // namespace

void set_run_use(telemetry::Registry& registry, const PaceTotals& totals, const DataLimit& data) {
  registry.set(Metric::kRunWaitDataShare, share(totals.wait_data_s, totals));
  registry.set(Metric::kRunWaitNetworkShare, share(totals.wait_network_s, totals));
  if (data.decoders_busy) registry.set(Metric::kRunDecodersBusyShare, *data.decoders_busy);
  for (const auto& [stage, ms] : stage_ms(data.stages)) registry.set(Metric::kRunImageMs, ms, stage);
}

// Uses as the label the shortest text that parses as the same number.
void set_reached(telemetry::Registry& registry, DataSet of, const TimeToAccuracy& level) {
  const std::string label = fmt::format("{}", level.accuracy);
  registry.set(time_of(of), level.seconds, label);
  registry.set(samples_of(of), static_cast<double>(level.samples), label);
}

std::vector<TimeToAccuracy> reached_levels(const telemetry::Snapshot& snapshot, DataSet of) {
  std::vector<TimeToAccuracy> levels;
  for (const telemetry::Sample& sample : snapshot) {
    if (sample.metric != time_of(of)) continue;
    TimeToAccuracy level{.seconds = sample.value};
    const std::string& label = sample.label;
    std::from_chars(label.data(), label.data() + label.size(), level.accuracy);
    level.samples = static_cast<uint64_t>(value_of(snapshot, samples_of(of), label).value_or(0));
    levels.push_back(level);
  }
  std::ranges::sort(levels, {}, &TimeToAccuracy::accuracy);
  return levels;
}

job::DataStage slowest_stage(const telemetry::Snapshot& snapshot) {
  job::DataStage slowest = job::DataStage::kNone;
  double most = 0;
  for (size_t i = 1; i < job::kDataStageNames.size(); i++) {
    const double ms = value_of(snapshot, Metric::kRunImageMs, job::kDataStageNames[i].key).value_or(0);
    if (ms > most) most = ms, slowest = static_cast<job::DataStage>(i);
  }
  return slowest;
}

}  // namespace dtrain::train
