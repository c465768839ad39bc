// How long a job takes when processes are lost at random times, under each policy of recovery. A model with few
// numbers, unlike simulator.h: a job of months with 10,000 workers takes it milliseconds. It knows how much each worker
// contributes, who waits for whom, how long it takes to notice a loss and to replace a worker, and how much work the
// snapshots of the servers lack. The time between the losses of a process is exponentially distributed.
#pragma once

#include <cstddef>
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

// What happens when a server is lost. Each server is lost as often as a worker.
enum class ServerLoss {
  kRestart,   // all start again from the last checkpoint, under each policy
  kGoBack,    // another server takes its place, and all go back to the newest snapshot that every server has
  kContinue,  // another server takes its place with its own newest snapshot, and no step is repeated
};
std::string_view name_of(ServerLoss loss);

struct LossSetting {
  double work_s = 0;   // duration of the job if no process is lost
  double epoch_s = 0;  // duration of an epoch; at its end, the job writes a checkpoint
  double save_s = 0;   // time between two checkpoints within an epoch; 0: there are none
  // The part of the work that each worker does, indexed by worker. The sum is 1.
  std::vector<double> share = {};
  // The group of each worker, 0, 1, 2, ...: a group makes no step from the loss of a member until it is noticed.
  std::vector<uint32_t> group_of = {};
  // With kWait: whether all stand still while a seat is empty, or continue without it.
  bool stands_still = false;
  SchedulerLoss scheduler = SchedulerLoss::kNever;
  size_t servers = 0;  // number of servers, all of which may be lost
  // With kGoBack and kContinue, all workers stand still from the loss of a server until another one has its place.
  ServerLoss server = ServerLoss::kRestart;
  // With kGoBack and kContinue: each server takes a snapshot when the job starts, and one each time that `snapshot_s`
  // more of the work is done. It can be used when `snapshot_write_s` more is done. snapshot_s must be above 0.
  double snapshot_s = 0, snapshot_write_s = 0;
  double mtbf_s = 0;     // mean time between the losses of a process
  double detect_s = 0;   // time from a loss until the job knows of it
  double replace_s = 0;  // time from there until another process has its place, or until all that start again train
};

struct LossCost {
  double seconds = 0;  // duration of the job: work_s + standing_s + fewer_s + repeated_s if it finished
  double standing_s = 0;
  double fewer_s = 0;     // what the missing workers would have saved
  double repeated_s = 0;  // work that was done again after the return to a checkpoint or to a snapshot
  double undone_s = 0;    // work whose updates a replaced server lacks (kContinue), summed over these servers
  uint64_t losses = 0;    // of workers, of servers and of the scheduler
  uint64_t workers_at_end = 0;
  // False if the job has no worker left, or would take more than kTooLong times as long as without losses.
  bool finished = false;
};
constexpr double kTooLong = 10;

// One job. Equal settings, policies and seeds give equal costs. mtbf_s must be above 0.
LossCost job_with_losses(const LossSetting& setting, LossPolicy policy, uint64_t seed);

}  // namespace dtrain::plan
