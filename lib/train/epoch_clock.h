// The position of a run: its epoch, steps, updates and samples, and the points at which all workers agree on them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "optim/schedule.h"
#include "train/agreement.h"
#include "train/checkpoint_header.h"
#include "train/train_spec.h"

namespace dtrain::train {

// The counters of one worker. The store and the coordinator are borrowed and must outlive the clock.
class EpochClock {
 public:
  // Why the workers together may apply fewer samples than their steps have.
  struct Losses {
    bool may_skip_alone = false;    // a worker may leave out a step that others make
    bool may_lose_workers = false;  // a worker may be lost
  };
  EpochClock(EpochRule rule, optim::ScheduleSpec schedule, Losses losses, kvstore::Store& store,
             job::Coordinator& coordinator);

  // Continues from the start that the workers have agreed on.
  void seek(const AgreedStart& start);
  // The same for a worker that joins the running job, whose workers have this rule now.
  void seek(const AgreedStart& start, const EpochRule& rule) {
    rule_ = rule;
    seek(start);
  }

  // For a worker that has just joined with the position of another one: its own next update is this one, because the
  // store already has gradients of its rank, or because the other worker is ahead of it. So the steps between the two
  // count as made, or as still to be made, if an epoch has a fixed number of steps.
  void skip_to_update(uint64_t update);
  // Goes back to an earlier position of the run.
  void go_back(const AgreedStart& start, const EpochRule& rule);

  // Continues with another rule, that of the workers that are left. The schedule still counts in the samples of the
  // first rule's epochs. After an epoch: own_steps() becomes what it would be if this rule had held from the start.
  // Within an epoch: `at` is slowest_position() under the new rule, and `rest` is what is left of the epoch.
  void change_rule_after_epoch(const EpochRule& rule);
  void change_rule_within_epoch(const EpochRule& rule, const Position& at, data::EpochRest rest);

  // Whether the current epoch is over. To be called before each step. Reads the store's counters, and may have to wait
  // for the weights of the last step to do so.
  Result<bool> epoch_is_over();
  // Whether the epoch is certain to have a step after the next one, whatever becomes of that one.
  [[nodiscard]] bool has_step_after_next() const {
    return rule_.ends_after_fixed_steps &&
           position_.own_steps + 1 < static_cast<uint64_t>(rule_.steps_until(position_.epoch + 1));
  }
  // Whether the next step is the first, or the last, of those for one update (EpochRule::steps_per_update). An epoch
  // ends with an update, and workers stop or meet only between updates.
  [[nodiscard]] bool begins_update() const { return steps_in_update_ == 0; }
  [[nodiscard]] bool ends_update() const;
  // To be called after each step. `applied`: whether the step counted; see StepRunner::finish. `samples`: the size of
  // this worker's batch.
  void step_done(bool applied, int64_t samples);
  void epoch_done() {
    position_.epoch++;
    position_.step = 0;
    rest_ = {};
  }
  // Waits for all workers and returns to each the same answer. A worker may call it because its epoch has ended,
  // because it was asked to stop, because it has reached a border, or because its step is torn. Of `own`, the steps and
  // is_whole are ignored. To be called only if workers may have different weights or may be lost, with no step of this
  // worker in progress.
  Result<AgreedEnd> agree_on_end(OwnEnd own);
  // Whether this worker has made all steps of the epoch. Only for epochs with a fixed number of steps.
  [[nodiscard]] bool is_whole() const {
    return rule_.ends_after_fixed_steps &&
           position_.own_steps >= static_cast<uint64_t>(rule_.steps_until(position_.epoch + 1));
  }
  // What a worker needs to make an update again; taken before the first step for it.
  struct Mark {
    Position position;
    uint64_t unshared_samples = 0;
  };
  [[nodiscard]] Mark mark() const { return {position_, unshared_samples_}; }
  void go_back(const Mark& mark) {
    position_ = mark.position;
    steps_in_update_ = 0;
    unshared_samples_ = mark.unshared_samples;
  }
  // To be called when this worker has fetched the newest weights and, on rank 0, also everything else that a checkpoint
  // needs. If workers may have different weights, waits for all of them, because a worker that continued would change
  // what the others fetch.
  Result<> wait_for_others();
  // Sets samples() to the number of samples that have been applied to the weights, if the store counts them or workers
  // may be lost. To be called when all workers have the newest weights.
  Result<> read_samples();

  [[nodiscard]] const EpochRule& rule() const { return rule_; }
  // To be called after the groups have changed.
  void set_samples_per_update(uint64_t samples) { rule_.samples_per_update = samples; }
  [[nodiscard]] Position position() const { return position_; }
  // The same with the steps of the slowest worker, if the lead of a worker is bounded and all have just met. What is
  // left of an epoch is counted from there, so that all workers end it after the same update. Otherwise the bound would
  // keep one of them from its last steps, because others have ended the epoch too early.
  [[nodiscard]] Position slowest_position() const;
  // If the current epoch was begun by other workers: what this worker's job reads of it; otherwise without parts.
  [[nodiscard]] const data::EpochRest& rest() const { return rest_; }
  // Steps of this worker since the start of the run, including those made before the run was resumed.
  [[nodiscard]] uint64_t own_steps() const { return position_.own_steps; }
  [[nodiscard]] uint64_t own_steps_in_this_process() const { return position_.own_steps - start_.own_steps; }
  // Steps of each worker, indexed by rank; empty if all have made the same number, or if this worker has made a step
  // since they agreed on them.
  [[nodiscard]] const std::vector<uint64_t>& worker_steps() const { return worker_steps_; }
  // The number of the store's next step, which is an update.
  [[nodiscard]] uint64_t updates() const { return position_.updates; }
  // Samples of all workers since the start of the run, up to the last update.
  [[nodiscard]] uint64_t samples() const { return position_.samples; }
  [[nodiscard]] uint64_t samples_in_this_process() const { return position_.samples - start_.samples; }
  // Sets the factor by which the schedule's learning rate is multiplied from the next update on.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  // The learning rate of the next update. It depends on the samples that will have been applied after that update.
  [[nodiscard]] double rate_of_next_update() const { return scheduled_rate() * rate_factor_; }
  // The learning rate of the next update according to the schedule alone, without the factor.
  [[nodiscard]] double scheduled_rate() const;
  // Returns the number of samples that this worker has processed since its moving statistics were last shared with the
  // other workers, and resets the number to 0.
  uint64_t take_unshared_samples() { return std::exchange(unshared_samples_, 0); }

 private:
  [[nodiscard]] uint64_t samples_of_next_update() const;
  [[nodiscard]] uint64_t lead() const;

  EpochRule rule_;
  const uint64_t epoch_samples_;  // samples of an epoch, as the schedule counts
  optim::ScheduleSpec schedule_;
  kvstore::Store& store_;
  job::Coordinator& coordinator_;
  // If every step of every worker counts, each worker can compute the sum of samples itself and need not wait for the
  // weights. If a worker may leave out a step that others make, only the store knows the sum.
  const bool store_counts_samples_;
  const bool may_skip_alone_;
  const bool may_lose_workers_;

  Position position_;
  data::EpochRest rest_;
  uint64_t steps_in_update_ = 0;  // steps that this worker has made for the next update
  Position start_;                // where this process began, or an earlier position to which it has gone back
  std::vector<uint64_t> worker_steps_;
  uint64_t unshared_samples_ = 0;
  double rate_factor_ = 1;
};

}  // namespace dtrain::train
