#include "observe/period.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::observe {
namespace {

using telemetry::Metric;
using telemetry::Snapshot;

// How much the values of one process have increased.
class Growth {
 public:
  Growth(const Source* before, const Source& now) : before_(before), now_(now) {}

  [[nodiscard]] double of(Metric metric, std::string_view label = "") const {
    return value(now_.snapshot, metric, label) - (before_ == nullptr ? 0 : value(before_->snapshot, metric, label));
  }
  [[nodiscard]] double newest(Metric metric) const { return value(now_.snapshot, metric, ""); }
  [[nodiscard]] double of_all(Metric metric) const {  // increase of the metric's sum over all labels
    return sum(now_.snapshot, metric) - (before_ == nullptr ? 0 : sum(before_->snapshot, metric));
  }
  [[nodiscard]] double count(Metric metric) const {  // number of observations of a histogram
    return observed(now_.snapshot, metric) - (before_ == nullptr ? 0 : observed(before_->snapshot, metric));
  }

 private:
  static double value(const Snapshot& snapshot, Metric metric, std::string_view label) {
    return telemetry::value_of(snapshot, metric, label).value_or(0);
  }
  static double sum(const Snapshot& snapshot, Metric metric) {
    double all = 0;
    for (const telemetry::Sample& sample : snapshot) all += sample.metric == metric ? sample.value : 0;
    return all;
  }
  static double observed(const Snapshot& snapshot, Metric metric) {
    double all = 0;
    for (const telemetry::Sample& sample : snapshot) {
      if (sample.metric != metric) continue;
      for (const uint64_t count : sample.counts) all += static_cast<double>(count);
    }
    return all;
  }

  const Source* before_;
  const Source& now_;
};

const Source* find(const std::vector<Source>& sources, const Source& like) {
  const auto found = std::find_if(sources.begin(), sources.end(), [&](const Source& source) {
    return source.role == like.role && source.rank == like.rank;
  });
  return found == sources.end() ? nullptr : &*found;
}

WorkerPeriod worker_period(const Source& source, const Growth& growth, double seconds) {
  const auto of_step = [&, steps = growth.count(Metric::kStepSeconds)](double whole) { return whole / steps; };
  const auto phase = [&](const char* name) { return of_step(growth.of(Metric::kPhaseSeconds, name)); };
  WorkerPeriod period{.rank = source.rank, .host = source.host, .steps = growth.count(Metric::kStepSeconds)};
  period.step_s = of_step(growth.of(Metric::kStepSeconds));
  period.data_wait_s = phase("data_wait");
  period.compute_s = phase("forward") + phase("backward") + phase("update") + phase("other");
  period.pull_wait_s = phase("pull_wait");
  period.push_s = phase("push");
  period.decode_threads = growth.newest(Metric::kDecodeThreads);
  period.read_ms = growth.newest(Metric::kReadMs);
  for (const Metric stage : {Metric::kHeaderMs, Metric::kDecodeMs, Metric::kColorMs, Metric::kRowsMs}) {
    period.decode_ms += growth.newest(stage);
  }
  period.cores_busy = growth.of(Metric::kCpuSeconds) / seconds;
  period.cores_missing = growth.of(Metric::kCoreWaitSeconds) / seconds;
  period.read_bytes_per_s = growth.of(Metric::kReadBytes) / seconds;
  period.sent_bytes = of_step(growth.of_all(Metric::kSentBytes));
  period.samples_per_s = growth.newest(Metric::kSamplesPerS);
  return period;
}

}  // namespace

JobPeriod period_between(const std::vector<Source>& before, const std::vector<Source>& now, double seconds) {
  JobPeriod job;
  job.seconds = seconds;
  if (seconds <= 0) return job;
  for (const Source& source : now) {
    const Growth growth(find(before, source), source);
    if (source.role == "worker" && growth.count(Metric::kStepSeconds) > 0) {
      job.workers.push_back(worker_period(source, growth, seconds));
    } else if (source.role == "server") {
      job.servers.push_back({.rank = source.rank,
                             .host = source.host,
                             .busy = growth.of(Metric::kServerBusySeconds) / seconds,
                             .updates = growth.of(Metric::kUpdates) / seconds});
    }
  }
  // A worker's gradients are late at every server, so only the greatest lateness counts.
  for (const Source& source : now) {
    if (source.role != "server") continue;
    const Growth growth(find(before, source), source);
    for (WorkerPeriod& worker : job.workers) {
      const std::string peer = fmt::format("worker {}", worker.rank);
      const double gradients = growth.of(Metric::kTimedGradients, peer);
      if (gradients <= 0) continue;
      worker.lateness_s = std::max(worker.lateness_s, growth.of(Metric::kLatenessSeconds, peer) / gradients);
    }
  }
  return job;
}

}  // namespace dtrain::observe
