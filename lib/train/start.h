// The initial state of a run: newly drawn weights, or a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loading/epoch_rest.h"
#include "graph/ids.h"
#include "job/spec/job_plan.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace dtrain::train {

struct StartFrom {
  std::string prefix;
  // --load-epoch: the epoch to load. Nullopt (--resume): the newest checkpoint of the prefix.
  std::optional<int64_t> epoch;
};

struct StartSpec {
  std::optional<StartFrom> from;
  std::string pretrained;  // without `from`: the .params file of a model with another last layer; empty: none
  // Text that is added to the error if the pretrained model does not fit; may be empty.
  std::string pretrained_note = {};
  InitializerSpec initializer;
  optim::OptimizerSpec optimizer;
  uint64_t seed = 0;
  std::string job_hash, job_text;  // the JobSpec of this run
  job::EpochRule epoch;
};

struct Start {
  Position position;              // own_steps: of every worker, unless worker_steps lists them
  data::EpochRest rest = {};      // of the epoch in progress, if it was begun by other workers
  std::vector<NamedArray> slots;  // the optimizer state; empty: zeros
  double rate_factor = 1;         // the factor by which the run has changed the schedule's learning rate
  // Sums of each worker's metrics, indexed by rank; there may be fewer entries than workers.
  std::vector<std::vector<double>> metric_sums;
  // Dynamic loss scale of each worker, indexed by rank; there may be fewer entries than workers.
  std::vector<LossScale::State> loss_scales;
  // Steps of each worker since the start of the run, indexed by rank; empty if all have made the same number.
  std::vector<uint64_t> worker_steps;
  std::optional<BestAccuracy> best = {};
  // Epochs of the checkpoints that the run has written and not removed. Empty without --resume, because a run must not
  // remove another run's checkpoints.
  std::vector<int64_t> kept_epochs = {};
};

// Fills the view's weights and statistics. A pretrained model fills all but the last layer (graph/fine_tune.h), which
// is drawn at random, and training begins at epoch 0. Called only on rank 0; the other workers receive everything from
// there.
//
// A checkpoint without .states is foreign: the optimizer starts with empty slots, the schedule starts at the beginning
// of the epoch, and gammas that the graph fixes to 1 are set to 1 (docs/arithmetic.md, "Operators"). A checkpoint that
// dtrain wrote with .states continues bit for bit. If its job had another JobSpec, the log lists the keys that differ;
// with --load-epoch this is a warning.
// Errors: Code::kData if the checkpoint is damaged or belongs to another network (names the first array that is missing
// or has another shape); kUsage if it was written with another optimizer; kNotFound if there is none.
Result<Start> make_start(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view, const Log& log);

}  // namespace dtrain::train
