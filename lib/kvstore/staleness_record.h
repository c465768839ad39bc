// What a slice's rounds were like, group by group: how stale its updates were, how long members waited for each other.
// distributed.md R-G4, 2.8.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "sync/machine.h"

namespace dtrain::kvstore {

// Of the last kReportUpdates updates of a group.
struct GroupReport {
  sync::Group group = 0;
  uint64_t updates = 0;  // since the group began
  double staleness_mean = 0;
  uint64_t staleness_max = 0;
  double first_wait_s = 0;  // on average: from a round's first gradient to its update
  double updates_per_s = 0;
};
inline constexpr uint64_t kReportUpdates = 100;

// One thread at a time calls it.
class StalenessRecord {
 public:
  using Clock = std::chrono::steady_clock;
  // The last place of the histogram counts all that is staler.
  static constexpr size_t kLargest = 1000;

  StalenessRecord(size_t groups, Clock::time_point begin) { begin_groups(groups, begin); }

  // From now on there are other groups. The histogram goes on.
  void begin_groups(size_t groups, Clock::time_point now) { groups_.assign(groups, {.window_begin = now}); }

  void on_add(sync::Group group, Clock::time_point now);
  // staleness: sync::Apply's, 1 and up. A report after every kReportUpdates-th update of the group.
  std::optional<GroupReport> on_apply(sync::Group group, uint64_t staleness, Clock::time_point now);

  // [i]: updates with staleness i + 1.
  [[nodiscard]] const std::vector<uint64_t>& histogram() const { return histogram_; }

 private:
  struct Window {
    std::optional<Clock::time_point> first_add = {};  // of the open round
    Clock::time_point window_begin;
    uint64_t updates = 0;  // of the group since it began; what follows: in the window
    uint64_t staleness_sum = 0, staleness_max = 0;
    double wait_s = 0;
  };
  std::vector<Window> groups_;
  std::vector<uint64_t> histogram_;
};

}  // namespace dtrain::kvstore
