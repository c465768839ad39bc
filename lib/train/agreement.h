// The information about a run that the workers of a job exchange. Each function is a point at which all workers meet.
// All workers call the same functions in the same order. Errors are those of the coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/coordinator.h"
#include "train/loss_scale.h"
#include "train/start.h"

namespace dtrain::train {

// Where a run starts, as far as it concerns one worker.
struct AgreedStart {
  Position position;
  data::EpochRest rest;              // as in Start
  double rate_factor = 1;            // the factor by which the run has changed the schedule's learning rate
  bool saves_within_epochs = false;  // whether workers meet within epochs to write checkpoints
  LossScale::State loss_scale;
  std::vector<double> metric_sums;
  std::optional<BestAccuracy> best;  // of the run so far
  std::vector<int64_t> kept_epochs;  // as in Start, of checkpoints with the prefix of this run
};

// What rank 0 knows about the start, because it alone reads the checkpoint. Ignored on the other workers.
struct OwnStart {
  const Start& start;
  bool continues_checkpoints = false;  // whether the run writes checkpoints with the prefix from which it starts
  // Number of metric sums in use; a checkpoint with a different number was written with other metrics.
  size_t metric_sums = 0;
  bool saves_within_epochs = false;
};
Result<AgreedStart> agree_on_start(job::Coordinator& coordinator, const OwnStart& own);

// Where the workers meet. They have come to the end of the epoch, unless one of the members says otherwise.
struct AgreedEnd {
  std::vector<uint64_t> worker_steps;  // number of steps that each worker has made, in the order of ranks
  bool some_stop = false;              // whether at least one worker was asked to stop
  uint64_t border = 0;                 // the border to which at least one worker has come; 0: none
};
Result<AgreedEnd> agree_on_epoch_end(job::Coordinator& coordinator, uint64_t own_steps, bool stopping);

// What each worker alone knows about itself, in the order of ranks. `loss_scales` is empty if the loss scale is not
// dynamic.
struct WorkerStates {
  std::vector<std::vector<double>> metric_sums;
  std::vector<LossScale::State> loss_scales;
};

// A worker's decision about checkpoints within an epoch; that of the lowest rank counts.
struct SaveDecision {
  bool is_due = false;        // whether to write a checkpoint now
  uint64_t next_meeting = 0;  // decide again after this many steps of each worker
};

struct OwnState {
  const std::vector<double>& metric_sums;
  const LossScale& loss_scale;
};
struct SaveMeeting {
  WorkerStates states;
  SaveDecision decision;
};
// `why` names the wait.
Result<SaveMeeting> gather_states(job::Coordinator& coordinator, const std::string& why, const OwnState& own,
                                  const SaveDecision& decision = {});

}  // namespace dtrain::train
