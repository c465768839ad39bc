// The training of one worker: epochs of steps, evaluation, checkpoints, the log. The same code alone and in a job; what
// differs is behind the store and the coordinator.
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
#include "job/flags.h"
#include "kvstore/coordinator.h"
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

// When an epoch ends for a worker (R-D9, R-G6). An epoch is `samples` applied, whoever computed them; the worker goes
// round its own share of the data meanwhile, in passes of as many batches as the loader has.
struct EpochRule {
  // true: after so many steps of its own that all workers' together have the samples: BSP, and whatever bounds how far
  // workers may be apart. false: as soon as it hears from the store that the samples are in.
  bool in_step = true;
  bool same_weights = true;       // all workers begin a step with the same ones: BSP. Else they meet at an epoch's end
  uint64_t samples = 0;           // of all workers; as what follows, to be given
  uint64_t samples_per_step = 0;  // of all workers, each doing one
  uint64_t samples_per_update = 0;  // of those whose gradients are summed with this worker's

  // A worker's steps in the first `epochs` ones; not in step: on average.
  [[nodiscard]] int64_t steps_until(int64_t epochs) const {
    return static_cast<int64_t>((static_cast<uint64_t>(epochs) * samples + samples_per_step - 1) / samples_per_step);
  }
};

// Plain data.
struct TrainSpec {
  int64_t num_epochs = 1;  // epochs begin .. num_epochs - 1
  int64_t batch_size = 1;  // of this worker
  EpochRule epoch;
  RegroupSpec regroup = {};
  MetricSpec metrics;
  job::OnNan on_nan = job::OnNan::kFail;
  LossScale loss_scale = {};

  // The store applies these; here they make initial weights, the header of checkpoints and the lines about the rate.
  optim::OptimizerSpec optimizer;
  optim::ScheduleSpec schedule;
  InitializerSpec initializer;
  uint64_t seed = 0;
  std::string job_hash, job_text;  // of the JobSpec: for checkpoints

  std::optional<StartFrom> start_from;  // --load-epoch, --resume; nothing: drawn weights
  std::string save_prefix;              // of checkpoints; empty: none are written
  int64_t save_period = 1;              // epochs; 0: never
  double save_every_s = 0;              // between mid-epoch checkpoints; 0: off
  bool save_optimizer_states = true;    // mid-epoch checkpoints always have them: they hold the position

  int64_t disp_batches = 20;
  job::LogFormat log_format = job::LogFormat::kNew;
  std::string metrics_path;         // metrics.jsonl, appended to; empty: none
  bool data_can_be_learned = true;  // false: labels are drawn (--benchmark), so nobody wonders at a loss at chance
  double log_time_to = 0;           // rank 0: the first time at each multiple of it as accuracy is noted; 0: off
};

// All borrowed; they outlive the trainer.
struct TrainParts {
  const graph::Graph& graph;
  Shape image;                                                   // [c, h, w]
  std::shared_ptr<const Normalisation> normalisation = nullptr;  // as `training` was compiled with
  exec::DeviceGroup& training;
  std::vector<size_t> bucket_begin;  // as `training` was compiled with
  data::Loader& training_data;
  exec::DeviceGroup* inference = nullptr;  // each executor made with weights_of that of `training`; nullptr here or
                                           // below: no validation
  data::Loader* validation_data = nullptr;
  kvstore::Store& store;
  kvstore::Coordinator& coordinator;
  Pacer* pacer = nullptr;  // of its steps; nullptr: as fast as they are
  KillSwitch kill{std::nullopt};
  Log log;  // named by the rank
};

struct TrainOutcome {
  bool stopped = false;  // the coordinator said so; a checkpoint was written where there is a prefix
  Position position;
  std::optional<double> train_accuracy, validation_accuracy,
      best_validation_accuracy;                                                     // of whole epochs, the last ones
  std::vector<TimeToAccuracy> time_to_train_accuracy, time_to_validation_accuracy;  // rank 0's
  int64_t epochs_at_chance = 0;  // of this run: the training loss was no better than a guess
  uint64_t samples = 0;          // by the whole job, in this run
  double samples_per_s = 0;      // of the whole job, without validation
  double wait_data_share = 0, wait_network_share = 0;
  int64_t bad_records = 0;
};

class Trainer {
 public:
  Trainer(TrainSpec spec, TrainParts parts);
  ~Trainer();

  // Once. Errors: those of the parts; kInternal for numbers that are not finite (--on-nan fail).
  Result<TrainOutcome> run();
  // What has come of it so far, also after run() returned an Error.
  [[nodiscard]] TrainOutcome outcome() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::train
