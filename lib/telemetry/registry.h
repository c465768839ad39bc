// The metrics of one process. Writing to a metric costs an atomic store; nothing is formatted or sent until it is
// requested.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "telemetry/catalogue.h"

namespace dtrain::telemetry {

// One series of a counter or gauge. Any thread may use it; the registry owns it.
class Cell {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  [[nodiscard]] double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

// One series of a histogram. Like a Cell, any thread may use it, and the registry owns it.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  // Adds `count` observations of `value`.
  void observe(double value, uint64_t count = 1);

  struct State {
    // The number of values for each bound, not cumulative. The last element counts the values above all bounds.
    std::vector<uint64_t> counts;
    double sum = 0;
  };
  [[nodiscard]] State state() const;
  // Replaces the content by that of a histogram with the same bounds that was counted elsewhere.
  void replace(const State& state);

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

// The value of one series.
struct Sample {
  Metric metric = Metric::kEpoch;
  std::string label;             // the label's value, such as "forward"; empty if the metric has no label
  double value = 0;              // value of a counter or gauge; for a histogram, the sum of its values
  std::vector<uint64_t> counts;  // for a histogram: the counts, as in Histogram::State
  bool operator==(const Sample&) const = default;
};
using Snapshot = std::vector<Sample>;  // in the order of Metric, then of the labels

// Thread-safe.
class Registry {
 public:
  // Returns the series of a metric, and creates it if it does not exist yet. The reference stays valid. If speed
  // matters, keep the reference, because finding a series takes a lock.
  Cell& cell(Metric metric, const std::string& label = "");
  Histogram& histogram(Metric metric, const std::string& label = "");
  void set(Metric metric, double value, const std::string& label = "") { cell(metric, label).set(value); }
  // Removes a series of a counter or gauge whose value is no longer known. References to it become invalid.
  void remove(Metric metric, const std::string& label = "");

  // A collector writes values that are counted elsewhere. It is called before each snapshot, by the thread that takes
  // the snapshot. It is removed when the handle is destroyed, which waits for a snapshot in progress.
  using Collector = std::function<void(Registry&)>;
  class Handle {
   public:
    Handle() = default;
    Handle(Registry* registry, uint64_t id) : registry_(registry), id_(id) {}
    Handle(Handle&& other) noexcept : registry_(std::exchange(other.registry_, nullptr)), id_(other.id_) {}
    Handle& operator=(Handle&& other) noexcept {
      std::swap(registry_, other.registry_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Handle();

   private:
    Registry* registry_ = nullptr;
    uint64_t id_ = 0;
  };
  [[nodiscard]] Handle collect(Collector collector);

  // The values of all series that exist.
  [[nodiscard]] Snapshot snapshot();

 private:
  using Key = std::pair<Metric, std::string>;

  mutable Mutex mutex_;
  std::map<Key, Cell> cells_ DT_GUARDED_BY(mutex_);
  std::map<Key, Histogram> histograms_ DT_GUARDED_BY(mutex_);
  Mutex collecting_;  // held while collectors run; locked before mutex_
  std::map<uint64_t, Collector> collectors_ DT_GUARDED_BY(collecting_);
  uint64_t next_collector_ DT_GUARDED_BY(collecting_) = 0;
};

// The value of a series in a snapshot; nullopt if the snapshot does not have the series.
std::optional<double> value_of(const Snapshot& snapshot, Metric metric, std::string_view label = "");

}  // namespace dtrain::telemetry
