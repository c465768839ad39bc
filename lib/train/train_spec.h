// The settings of a Trainer: what a worker trains, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/flags/choices.h"
#include "job/spec/job_plan.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/data_limit.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/regroup.h"
#include "train/start.h"
#include "train/thread_tuner.h"

namespace dtrain::train {

using job::EpochRule;

struct TrainSpec {
  int64_t num_epochs = 1;  // the run ends after this many epochs, including those before a resume
  int64_t batch_size = 1;  // batch size of this worker
  EpochRule epoch;
  RegroupSpec regroup = {};
  MetricSpec metrics;
  job::OnNan on_nan = job::OnNan::kFail;
  LossScale loss_scale = {};

  // The store applies the optimizer and the schedule; the trainer uses them for initial weights, checkpoint headers and
  // log lines about the learning rate.
  optim::OptimizerSpec optimizer;
  optim::ScheduleSpec schedule;
  // Whether the rate is also in proportion to the samples of an update, if the workers change (--elastic-batch scale).
  bool rate_follows_batch = false;
  InitializerSpec initializer;
  uint64_t seed = 0;
  std::string job_hash, job_text;  // the JobSpec, for checkpoints

  bool joins = false;  // whether this worker joins the running job, instead of starting with it
  // Whether the run goes back when a lost worker has been replaced (rollback.h). The same on all workers, which have
  // the same weights and are served by servers.
  bool goes_back = false;
  // The servers take a snapshot of each version that this number divides, and if one of them is lost, another one takes
  // its place. 0: the run ends.
  uint64_t snapshot_every = 0;
  bool all_go_back = true;  // whether the run then goes back to such a version, or else continues where it is
  // Where the run starts, from --load-epoch or --resume; nullopt: with newly drawn weights.
  std::optional<StartFrom> start_from;
  std::string pretrained;            // the .params file to fine-tune, used only without start_from; empty: none
  std::string pretrained_note = {};  // added to the error if the pretrained model does not fit; may be empty
  std::string save_prefix;           // prefix of checkpoints; empty: none are written
  int64_t save_period = 1;           // epochs between checkpoints; 0: never
  double save_every_s = 0;           // seconds between checkpoints within an epoch; 0: off
  // Whether checkpoints at the end of an epoch include the optimizer state. Those within an epoch always do, because
  // the states file also contains the position.
  bool save_optimizer_states = true;

  int64_t keep = 0;                   // number of end-of-epoch checkpoints to keep on disk; 0: all
  int64_t eval_batches_interval = 0;  // steps between validations within an epoch; 0: validate only at its end

  Decoders decoders = {};  // initial decoders of the training data
  // Set by --data-nthreads auto. Nullopt: the number of decode threads does not change.
  std::optional<ThreadTuner::Options> tune_decoders = std::nullopt;
  int64_t monitor = 0;  // on rank 0, prints the norms of all tensors every `monitor` steps; 0: never
  int64_t disp_batches = 20;
  job::LogFormat log_format = job::LogFormat::kNew;
  // Path of metrics.jsonl, which is appended to; empty: none. Requests to change the learning rate are next to it.
  // Either all workers have one, or none has.
  std::string metrics_path;
  // Whether the network can learn the data; false: labels are random (--benchmark), so there is no warning if the loss
  // stays at chance.
  bool data_can_be_learned = true;
  // The network's default learning rate, an upper limit of the rate that the warning about a loss at chance suggests.
  double usual_rate = 0.05;
  // Times the batches after the first time_batches_after ones and writes the file batch-times-RANK.json next to
  // metrics_path. Nullopt: off.
  std::optional<int64_t> time_batches_after = std::nullopt;
  double log_time_to = 0;  // on rank 0, logs when accuracy first reaches each multiple of this; 0: off
};

}  // namespace dtrain::train
