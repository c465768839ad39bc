// Where the time of training goes: the steps themselves, waiting for data, waiting for the network.
#pragma once

#include <cstdint>
#include <optional>

#include "base/waits.h"
#include "kvstore/coordinator.h"

namespace dtrain::train {

struct PaceTotals {
  int64_t steps = 0;
  double seconds = 0;  // of the steps: without validation and checkpoints
  double wait_data_s = 0;
  double wait_network_s = 0;
};

class Pace {
 public:
  explicit Pace(int64_t batch_size) : batch_size_(batch_size) {}

  // A step took from `begin` to `end`, `data_ready` in between; `network_s`: what the store has waited since the start.
  void step(SteadyTime begin, SteadyTime data_ready, SteadyTime end, double network_s);
  // Time that belongs to the steps but to none of them: the wait for the last weights of an epoch.
  void wait(SteadyTime begin, SteadyTime end, double network_s);

  [[nodiscard]] const PaceTotals& totals() const { return totals_; }
  // For the coordinator, at most twice a second: nothing if it is too early.
  std::optional<kvstore::Progress> report(uint64_t step, SteadyTime now);

 private:
  void set_network(double network_s);

  int64_t batch_size_;
  PaceTotals totals_;
  PaceTotals reported_;
  std::optional<SteadyTime> reported_at_;
};

// How many steps fit into `seconds`: at least 1, and at most `steps_done`, so that an estimate from few steps is soon
// replaced by a better one.
uint64_t steps_within(double seconds, double seconds_per_step, uint64_t steps_done);

// Of the seconds that the steps took; 0 without any.
double share(double wait_s, const PaceTotals& totals);

}  // namespace dtrain::train
