// Statistics of one slice's rounds, for each group: how stale the updates were and how long members waited for each
// other.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "sync/machine.h"
#include "telemetry/registry.h"

namespace dtrain::kvstore {

// Covers the last kReportUpdates updates of a group.
struct GroupReport {
  sync::Group group = 0;
  uint64_t updates = 0;  // number of updates since the group was created
  double staleness_mean = 0;
  uint64_t staleness_max = 0;
  double first_wait_s = 0;  // mean time from a round's first gradient to its update
  double updates_per_s = 0;
};
inline constexpr uint64_t kReportUpdates = 100;

// The total delay of a worker's gradients after the first gradient of each round.
struct Lateness {
  uint64_t gradients = 0;
  double seconds = 0;
};

// Not thread-safe.
class StalenessRecord {
 public:
  using Clock = std::chrono::steady_clock;
  // Size of the histogram: its last entry counts this staleness and all larger ones.
  static constexpr size_t kLargest = 1000;

  StalenessRecord(size_t groups, Clock::time_point begin) { begin_groups(groups, begin); }

  // Replaces the groups. The histogram is kept.
  void begin_groups(size_t groups, Clock::time_point now) { groups_.assign(groups, {.window_begin = now}); }

  void on_add(sync::Group group, sync::Worker worker, Clock::time_point now);
  // `staleness` is that of sync::Apply, 1 or more. Returns a report after every kReportUpdates-th update of the group.
  std::optional<GroupReport> on_apply(sync::Group group, uint64_t staleness, Clock::time_point now);

  // histogram()[i] is the number of updates with staleness i + 1.
  [[nodiscard]] const std::vector<uint64_t>& histogram() const { return histogram_; }
  // The times from the first gradients of rounds to their updates.
  [[nodiscard]] telemetry::Histogram::State round_times() const { return round_s_.state(); }
  // The delays of each worker's gradients, indexed by worker.
  [[nodiscard]] const std::vector<Lateness>& lateness() const { return lateness_; }

 private:
  struct Window {
    std::optional<Clock::time_point> first_add = {};  // time of the first gradient of the open round
    Clock::time_point window_begin;
    uint64_t updates = 0;  // updates since the group was created; the members below count from window_begin on
    uint64_t staleness_sum = 0, staleness_max = 0;
    double wait_s = 0;
  };
  std::vector<Window> groups_;
  std::vector<uint64_t> histogram_;
  std::vector<Lateness> lateness_;
  telemetry::Histogram round_s_{telemetry::info(telemetry::Metric::kRoundSeconds).bounds};
};

}  // namespace dtrain::kvstore
