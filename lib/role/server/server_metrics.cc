#include "role/server/server_metrics.h"

#include <fmt/core.h>

namespace dtrain::role {
namespace {

// Converts the staleness counts to a histogram. The last count of kvstore::StalenessRecord is for that staleness and
// all larger ones.
telemetry::Histogram::State staleness_state(const std::vector<uint64_t>& staleness) {
  telemetry::Histogram histogram(telemetry::info(telemetry::Metric::kStaleness).bounds);
  for (size_t i = 0; i < staleness.size(); i++) histogram.observe(static_cast<double>(i + 1), staleness[i]);
  return histogram.state();
}

}  // namespace

void set_metrics(const kvstore::ShardCounts& counts, telemetry::Registry& to) {
  using telemetry::Metric;
  const auto set = [&](Metric metric, uint64_t count) { to.set(metric, static_cast<double>(count)); };
  set(Metric::kUpdates, counts.updates);
  set(Metric::kPushes, counts.pushes);
  set(Metric::kParkedPulls, counts.parked);
  set(Metric::kQueuedUpdates, counts.queued);
  set(Metric::kRepeatedMessages, counts.duplicates);
  set(Metric::kLateGradients, counts.late);
  set(Metric::kRefusedMessages, counts.refused);
  set(Metric::kCorruptMessages, counts.corrupt);
  to.set(Metric::kServerBusySeconds, counts.busy_s);
  // Number of updates and sum of their staleness, in the slice whose staleness is counted.
  uint64_t updates = 0, sum = 0;
  for (size_t i = 0; i < counts.staleness.size(); i++) {
    updates += counts.staleness[i];
    sum += counts.staleness[i] * (i + 1);
  }
  set(Metric::kStep, updates);
  if (updates > 0) {
    to.set(Metric::kStalenessMean, static_cast<double>(sum) / static_cast<double>(updates));
    set(Metric::kStalenessMax, counts.staleness.size());
  }
  to.histogram(Metric::kStaleness).replace(staleness_state(counts.staleness));
  for (size_t worker = 0; worker < counts.lateness.size(); worker++) {
    const std::string peer = fmt::format("worker {}", worker);
    to.set(Metric::kTimedGradients, static_cast<double>(counts.lateness[worker].gradients), peer);
    to.set(Metric::kLatenessSeconds, counts.lateness[worker].seconds, peer);
  }
  if (!counts.round_s.counts.empty()) to.histogram(Metric::kRoundSeconds).replace(counts.round_s);
}

telemetry::Record end_record(const telemetry::Snapshot& metrics) {
  using telemetry::Metric;
  telemetry::Record record{.epoch = std::nullopt, .step = 0, .values = {}};
  for (const Metric metric : {Metric::kStalenessMean, Metric::kStalenessMax}) {
    if (const auto value = telemetry::value_of(metrics, metric)) record.values.push_back({metric, *value});
  }
  record.step = static_cast<uint64_t>(telemetry::value_of(metrics, Metric::kStep).value_or(0));
  return record;
}

}  // namespace dtrain::role
