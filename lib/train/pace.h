// Measures how training time is spent: on steps, waiting for data, and waiting for the network.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/waits.h"
#include "job/process/coordinator.h"

namespace dtrain::train {

struct PaceTotals {
  int64_t steps = 0;
  double seconds = 0;  // time of the steps, without validation and checkpoints
  double wait_data_s = 0;
  double wait_network_s = 0;
};

// The minimum time between two reports to the coordinator.
inline constexpr std::chrono::milliseconds kReportInterval{500};

class Pace {
 public:
  explicit Pace(int64_t batch_size) : batch_size_(batch_size) {}

  // Adds a step that ran from `begin` to `end` and waited for its batch for `data_wait` of this time. `network_s`: the
  // store's total wait for the network since the start.
  void step(SteadyTime begin, SteadyTime end, SteadyTime::duration data_wait, double network_s);
  // Adds time that belongs to training but not to a single step, such as the wait for the last weights of an epoch.
  void wait(SteadyTime begin, SteadyTime end, double network_s);

  [[nodiscard]] const PaceTotals& totals() const { return totals_; }
  // Returns a report for the coordinator, at most twice a second; nullopt if it is too early for one.
  std::optional<job::WorkerProgress> report(uint64_t step, SteadyTime now);

 private:
  void set_network(double network_s);

  int64_t batch_size_;
  PaceTotals totals_;
  PaceTotals reported_;
  std::optional<SteadyTime> reported_at_;
};

// Returns `wait_s` as a share of the time that the steps took; 0 if that time is 0.
double share(double wait_s, const PaceTotals& totals);

}  // namespace dtrain::train
