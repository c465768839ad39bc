// Where a run begins: from drawn weights, or from a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "graph/graph.h"
#include "kvstore/store.h"
#include "optim/initializer.h"
#include "optim/optimizer.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace dtrain::train {

struct StartFrom {
  std::string prefix;
  // --load-epoch: this one. Nothing (--resume): the newest of the prefix.
  std::optional<int64_t> epoch;
};

struct StartSpec {
  std::optional<StartFrom> from;
  InitializerSpec initializer;
  optim::OptimizerSpec optimizer;
  uint64_t seed = 0;
  std::string job_hash, job_text;                      // of this run's JobSpec
  std::function<int64_t(int64_t epochs)> steps_until;  // EpochRule's
  uint64_t samples_per_epoch = 0;                      // of all workers together
  bool in_step = true;                                 // each worker does exactly so many
};

struct Start {
  Position position;
  kvstore::TrainingState state;
  std::vector<std::vector<double>> metric_sums;  // by rank; may be shorter than there are workers
  std::vector<LossScale::State> loss_scales;     // likewise
  std::vector<uint64_t> worker_steps;            // CheckpointHeader's
};

// Fills the view's weights and statistics. Called on rank 0 alone; the others get all of it from there.
//
// A checkpoint without .states is foreign: its optimizer begins with empty slots, its schedule at the beginning of the
// epoch, and the gammas that the graph fixes to 1 are set to 1 (models.md 2.1). One of dtrain's own continues bit by
// bit. Code::kData: damaged, or of another network (names the first array that is missing or has another shape);
// kUsage: of another optimizer; kNotFound: there is none. Another job: a warning that lists the keys that differ.
Result<Start> make_start(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view, const Log& log);

}  // namespace dtrain::train
