// How long a job takes when workers are lost at random times, under each policy of recovery. A model with few numbers,
// unlike simulator.h: a job of months with 10,000 workers takes it milliseconds. It knows how much each worker
// contributes, who waits for whom, and how long it takes to notice a loss and to replace a worker. The time between the
// losses of a process is exponentially distributed. Servers are never lost.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace dtrain::plan {

// What the job does when a worker is lost.
enum class LossPolicy {
  kWait,     // another worker takes the place of a lost one
  kShrink,   // the job continues without it
  kRestart,  // all start again from the last checkpoint
};
std::string_view name_of(LossPolicy policy);

// What happens to the scheduler. It is lost as often as a worker.
enum class SchedulerLoss {
  kNever,    // it is never lost
  kRestart,  // all start again from the last checkpoint, under each policy
  kReturns,  // it comes back and continues the job (--state-dir), while the others train
};

struct LossSetting {
  double work_s = 0;   // duration of the job if no worker is lost
  double epoch_s = 0;  // duration of an epoch; at its end, the job writes a checkpoint
  double save_s = 0;   // time between two checkpoints within an epoch; 0: there are none
  // The part of the work that each worker does, indexed by worker. The sum is 1.
  std::vector<double> share = {};
  // The group of each worker, 0, 1, 2, ...: a group makes no step from the loss of a member until it is noticed.
  std::vector<uint32_t> group_of = {};
  // With kWait: whether all stand still while a seat is empty, or continue without it.
  bool stands_still = false;
  SchedulerLoss scheduler = SchedulerLoss::kNever;
  double mtbf_s = 0;     // mean time between the losses of a worker
  double detect_s = 0;   // time from a loss until the job knows of it
  double replace_s = 0;  // time from there until another worker trains, or until all that start again train
};

struct LossCost {
  double seconds = 0;  // duration of the job: work_s + standing_s + fewer_s + repeated_s if it finished
  double standing_s = 0;
  double fewer_s = 0;     // what the missing workers would have saved
  double repeated_s = 0;  // work that was done again after the return to a checkpoint
  uint64_t losses = 0;    // of workers and of the scheduler
  uint64_t workers_at_end = 0;
  // False if the job has no worker left, or would take more than kTooLong times as long as without losses.
  bool finished = false;
};
constexpr double kTooLong = 10;

// One job. Equal settings, policies and seeds give equal costs. mtbf_s must be above 0.
LossCost job_with_losses(const LossSetting& setting, LossPolicy policy, uint64_t seed);

}  // namespace dtrain::plan
