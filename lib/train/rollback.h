// Where a run goes back to when a lost worker has been replaced, so that it ends with the bits of a run in which no
// worker was lost (--deterministic with --on-worker-loss wait).
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "graph/ids.h"
#include "tensor/parameters.h"
#include "train/start.h"

namespace dtrain::train {

struct RollbackSpec {
  StartSpec start;                // as if the present workers began the run with newly drawn weights
  std::string save_prefix;        // the prefix of the run's checkpoints; empty: it writes none
  Position position;              // where the run is
  std::string first_job_text;     // the JobSpec of the workers with which the run began
  bool began_with_model = false;  // whether the run began with a model or a checkpoint
};

// Makes the start of the newest checkpoint that was written by workers which divided the records as the present ones
// do, or without a checkpoint the beginning of the run. Fills the view with its weights and statistics. Nullopt: there
// is none, and the log says why. Errors: see make_start().
Result<std::optional<Start>> make_rollback(const RollbackSpec& spec, const graph::Graph& graph,
                                           const ParameterView& view, const Log& log);

}  // namespace dtrain::train
