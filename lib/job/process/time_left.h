// Estimates how long a job still takes, from how it has run so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace dtrain::job {

// Steps are those of all workers together.
struct JobPace {
  int64_t steps = 0;           // number of steps made since the run began
  int64_t steps_of_epoch = 1;  // steps in an epoch; at least 1
  int64_t epochs = 0;          // number of epochs of the whole job
  double steps_per_s = 0;      // current rate, without the time between steps; 0: not known yet
};

// Measures two things: the time of a step, as an exponential mean, because the newest report covers only half a second;
// and the time between the steps, for validation and checkpoints, averaged over the epochs that have ended. While no
// step is made, the estimate goes down with the clock. Not thread-safe.
class TimeLeft {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The seconds until the job ends; nullopt: not known yet. Call it with every report.
  std::optional<double> update(const JobPace& pace, Time now);

 private:
  void add_steps(double steps, double steps_per_s);
  [[nodiscard]] double estimate(const JobPace& pace, Time now) const;

  Time began_, last_;        // the first and the last report
  int64_t first_steps_ = 0;  // steps at the first report
  int64_t last_steps_ = 0;   // steps at the last report
  double in_steps_s_ = 0;    // time since began_ that was spent in steps
  double recent_s_ = 0;      // time spent in steps; recent steps have the greater weight
  double recent_steps_ = 0;  // number of steps, weighted in the same way
  std::optional<double> left_s_;
};

}  // namespace dtrain::job
