// The information about a run that the workers of a job exchange. Each function is a point at which all workers meet.
// All workers call the same functions in the same order. Errors are those of the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
  data::EpochRest rest;    // as in Start
  double rate_factor = 1;  // the factor by which the run has changed the schedule's learning rate
  LossScale::State loss_scale;
  std::vector<double> metric_sums;
  std::optional<BestAccuracy> best;  // of the run so far
  std::vector<int64_t> kept_epochs;  // as in Start, of checkpoints with the prefix of this run
  bool began_with_model = false;     // whether the run began with a model or a checkpoint, not with drawn weights
  bool goes_back = false;            // at a border: whether all workers go back to this position
  uint32_t giver = 0;  // with goes_back: the rank of the worker that has its weights, if there are no servers
};

// What rank 0 knows about the start, because it alone reads the checkpoint. Ignored on the other workers.
struct OwnStart {
  const Start& start;
  bool continues_checkpoints = false;  // whether the run writes checkpoints with the prefix from which it starts
  // Number of metric sums in use; a checkpoint with a different number was written with other metrics.
  size_t metric_sums = 0;
  bool began_with_model = false;  // as in AgreedStart
};
Result<AgreedStart> agree_on_start(job::Coordinator& coordinator, const OwnStart& own);

// Where the workers meet. They have come to the end of the epoch, unless one of the members says otherwise.
struct AgreedEnd {
  std::vector<uint64_t> worker_steps;  // number of steps that each worker has made, in the order of ranks
  bool some_stop = false;              // whether at least one worker was asked to stop
  uint64_t border = 0;                 // the border to which at least one worker has come; 0: none
  bool saves = false;                  // at a border: whether a checkpoint is due
  bool is_torn = false;                // whether at least one worker could not complete its step
};
struct OwnEnd {
  uint64_t steps = 0;     // of this worker, since the start of the run
  bool stopping = false;  // whether it was asked to stop
  bool saves = false;     // whether it writes the checkpoints and one is due
  bool is_torn = false;   // whether it cannot complete its step, see kvstore::WorkerGroup
  bool is_whole = false;  // whether it has made all steps of the epoch
  // The newest version of the servers' snapshots to which it can go back; nullopt: none limits it.
  std::optional<uint64_t> kept = {};
};
Result<AgreedEnd> agree_on_epoch_end(job::Coordinator& coordinator, const OwnEnd& own);
// The same for a worker that joins the running job: waits until the others meet at a border, and takes part from there.
Result<AgreedEnd> join_at_border(job::Coordinator& coordinator);
// At a border with which these workers have joined, after the others have divided the records anew: all workers call
// it, and get the position at which all continue. `start` is ignored on the newcomers. `hand_over` is called on one of
// the others; if that worker is lost, on the next one. It gives the servers what the newcomers need (kvstore::Store),
// and returns nullopt, or the start to which all workers go back. Code::kPeerLost: only newcomers are left.
using HandOver = std::function<Result<std::optional<Start>>()>;
Result<AgreedStart> welcome_newcomers(job::Coordinator& coordinator, const std::set<uint32_t>& newcomers,
                                      const OwnStart& start, const HandOver& hand_over);

// What each worker alone knows about itself, in the order of ranks. `loss_scales` is empty if the loss scale is not
// dynamic.
struct WorkerStates {
  std::vector<std::vector<double>> metric_sums;
  std::vector<LossScale::State> loss_scales;
};

struct OwnState {
  const std::vector<double>& metric_sums;
  const LossScale& loss_scale;
};
// `why` names the wait.
Result<WorkerStates> gather_states(job::Coordinator& coordinator, const std::string& why, const OwnState& own);

}  // namespace dtrain::train
