// The training loop of one worker: epochs of steps, validation, checkpoints, the log. The same code runs alone and in a
// job; the differences are behind the store and the coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "data/loader.h"
#include "exec/device_group.h"
#include "graph/graph.h"
#include "job/coordinator.h"
#include "job/flags/flags.h"
#include "kvstore/store.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/checkpoint_header.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/regroup.h"
#include "train/start.h"
#include "train/time_to_accuracy.h"

namespace dtrain::train {

// Decides when an epoch ends for a worker. An epoch is `samples` applied samples, whichever workers computed them.
// Meanwhile each worker cycles through its own share of the data, in passes of as many batches as its loader has. See
// docs/architecture.md, "One training step".
struct EpochRule {
  // true: after a fixed number of its own steps, chosen so that all workers together reach the samples. Used by BSP and
  // whenever the lead of a worker is bounded. false: as soon as the store reports that the samples have been applied.
  bool ends_after_fixed_steps = true;
  // Whether all workers begin a step with the same weights (BSP). Otherwise they meet at the end of an epoch.
  bool same_weights = true;
  uint64_t samples = 0;             // in an epoch, of all workers; this and the next two must be set
  uint64_t samples_per_step = 0;    // of all workers, one step each
  uint64_t samples_per_update = 0;  // of the workers whose gradients are summed with this worker's

  // A worker's steps in the first `epochs` epochs; an average if not ends_after_fixed_steps.
  [[nodiscard]] int64_t steps_until(int64_t epochs) const {
    return static_cast<int64_t>((static_cast<uint64_t>(epochs) * samples + samples_per_step - 1) / samples_per_step);
  }
};

struct TrainSpec {
  int64_t num_epochs = 1;  // the run ends after this many epochs, including those before a checkpoint
  int64_t batch_size = 1;  // of this worker
  EpochRule epoch;
  RegroupSpec regroup = {};
  MetricSpec metrics;
  job::OnNan on_nan = job::OnNan::kFail;
  LossScale loss_scale = {};

  // The store applies the optimizer and the schedule; the trainer uses them for initial weights, checkpoint headers and
  // log lines about the learning rate.
  optim::OptimizerSpec optimizer;
  optim::ScheduleSpec schedule;
  InitializerSpec initializer;
  uint64_t seed = 0;
  std::string job_hash, job_text;  // of the JobSpec, for checkpoints

  std::optional<StartFrom> start_from;  // --load-epoch, --resume; nullopt: newly drawn weights
  std::string save_prefix;              // of checkpoints; empty: none are written
  int64_t save_period = 1;              // in epochs; 0: never
  double save_every_s = 0;              // between checkpoints within an epoch; 0: off
  bool save_optimizer_states = true;    // checkpoints within an epoch always have them, because they hold the position

  int64_t disp_batches = 20;
  job::LogFormat log_format = job::LogFormat::kNew;
  std::string metrics_path;         // metrics.jsonl, appended to; empty: none
  bool data_can_be_learned = true;  // false: labels are random (--benchmark), so no warning if the loss stays at chance
  double log_time_to = 0;           // on rank 0, logs when accuracy first reaches each multiple of this; 0: off
};

// References and pointers are borrowed and must outlive the trainer.
struct TrainParts {
  const graph::Graph& graph;
  Shape image;                                                   // [c, h, w]
  std::shared_ptr<const Normalisation> normalisation = nullptr;  // as compiled into `training`
  exec::DeviceGroup& training;
  std::vector<size_t> bucket_begin;  // as compiled into `training`
  data::Loader& training_data;
  exec::DeviceGroup* inference = nullptr;  // each executor was made with weights_of that of `training`; no validation
                                           // if this or validation_data is null
  data::Loader* validation_data = nullptr;
  kvstore::Store& store;
  job::Coordinator& coordinator;
  Pacer* pacer = nullptr;  // paces the steps (--inject step-ms); null: as fast as possible
  KillSwitch kill{std::nullopt};
  Log log;  // named after the rank
};

struct TrainOutcome {
  bool stopped = false;  // on request; a checkpoint was written if there is a save_prefix
  Position position;
  std::optional<double> train_accuracy, validation_accuracy,
      best_validation_accuracy;  // of finished epochs: the last one's, and the best one's
  std::vector<TimeToAccuracy> time_to_train_accuracy, time_to_validation_accuracy;  // on rank 0
  int64_t epochs_at_chance = 0;  // in this run: epochs whose training loss was no better than a guess
  uint64_t samples = 0;          // of the whole job, in this run
  double samples_per_s = 0;      // of the whole job, without validation
  double wait_data_share = 0, wait_network_share = 0;
  int64_t bad_records = 0;
};

class Trainer {
 public:
  Trainer(TrainSpec spec, TrainParts parts);
  ~Trainer();

  // Call once. Errors: those of the parts, and Code::kInternal for values that are not finite (--on-nan fail).
  Result<TrainOutcome> run();
  // The results so far, also available after run() returned an Error.
  [[nodiscard]] TrainOutcome outcome() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
