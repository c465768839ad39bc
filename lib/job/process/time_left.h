// Estimates how long a job still takes, from how it has run so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace dtrain::job {

// Steps are those of all workers together.
struct JobPace {
  int64_t steps = 0;           // made since the run began
  int64_t steps_of_epoch = 1;  // at least 1
  int64_t epochs = 0;          // of the whole job
  double steps_per_s = 0;      // at present, without the time between steps; 0: not known yet
};

// Measures two things: what a step takes, as an exponential mean, because the newest report is of half a second; and
// the time between the steps, for validation and checkpoints, on the average of the epochs that have ended. While no
// step is made the estimate counts down. Not thread-safe.
class TimeLeft {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The seconds until the job ends; nullopt: not known yet. Call it with every report.
  std::optional<double> update(const JobPace& pace, Time now);

 private:
  void add_steps(double steps, double steps_per_s);
  [[nodiscard]] double estimate(const JobPace& pace, Time now) const;

  Time began_, last_;        // the first and the last report
  int64_t first_steps_ = 0;  // of the first report
  int64_t last_steps_ = 0;   // of the last report
  double in_steps_s_ = 0;    // time since began_ that was spent in steps
  double recent_s_ = 0;      // the same, and ...
  double recent_steps_ = 0;  // ... the steps, both with a weight that fades
  std::optional<double> left_s_;
};

}  // namespace dtrain::job
