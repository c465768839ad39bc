#include "telemetry/registry.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace dtrain::telemetry {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::observe(double value, uint64_t count) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(count, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(count), std::memory_order_relaxed);
}

Histogram::State Histogram::state() const {
  State state;
  for (const std::atomic<uint64_t>& count : counts_) state.counts.push_back(count.load(std::memory_order_relaxed));
  state.sum = sum_.load(std::memory_order_relaxed);
  return state;
}

void Histogram::replace(const State& state) {
  DT_CHECK(state.counts.size() == counts_.size(), "the histogram has {} counts instead of {}", state.counts.size(),
           counts_.size());
  for (size_t i = 0; i < counts_.size(); i++) counts_[i].store(state.counts[i], std::memory_order_relaxed);
  sum_.store(state.sum, std::memory_order_relaxed);
}

Cell& Registry::cell(Metric metric, const std::string& label) {
  DT_CHECK(info(metric).kind != Kind::kHistogram && info(metric).label.empty() == label.empty(),
           "'{}' is a histogram, or its labels are not '{}'", info(metric).name, label);
  const MutexLock lock(mutex_);
  return cells_[{metric, label}];
}

Histogram& Registry::histogram(Metric metric, const std::string& label) {
  DT_CHECK(info(metric).kind == Kind::kHistogram && info(metric).label.empty() == label.empty(),
           "'{}' is not a histogram, or its labels are not '{}'", info(metric).name, label);
  const MutexLock lock(mutex_);
  return histograms_.try_emplace({metric, label}, info(metric).bounds).first->second;
}

void Registry::remove(Metric metric, const std::string& label) {
  const MutexLock lock(mutex_);
  cells_.erase({metric, label});
}

Registry::Handle Registry::collect(Collector collector) {
  const MutexLock lock(collecting_);
  const uint64_t id = next_collector_++;
  collectors_.emplace(id, std::move(collector));
  return {this, id};
}

Registry::Handle::~Handle() {
  if (registry_ == nullptr) return;
  const MutexLock lock(registry_->collecting_);
  registry_->collectors_.erase(id_);
}

Snapshot Registry::snapshot() {
  {
    const MutexLock lock(collecting_);
    for (const auto& [id, collector] : collectors_) collector(*this);
  }
  const MutexLock lock(mutex_);
  Snapshot samples;
  for (const auto& [key, cell] : cells_) samples.push_back({key.first, key.second, cell.value(), {}});
  for (const auto& [key, histogram] : histograms_) {
    const Histogram::State state = histogram.state();
    samples.push_back({key.first, key.second, state.sum, state.counts});
  }
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return std::tie(a.metric, a.label) < std::tie(b.metric, b.label);
  });
  return samples;
}

std::optional<double> value_of(const Snapshot& snapshot, Metric metric, std::string_view label) {
  const auto found = std::find_if(snapshot.begin(), snapshot.end(), [&](const Sample& sample) {
    return sample.metric == metric && sample.label == label;
  });
  if (found == snapshot.end()) return std::nullopt;
  return found->value;
}

}  // namespace dtrain::telemetry
