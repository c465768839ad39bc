// What a run saves: which checkpoints, when, and their content. Only the leader writes; the other workers send it the
// parts of the state that only they have.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "exec/device_group.h"
#include "graph/ids.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "train/agreement.h"
#include "train/checkpoint.h"
#include "train/checkpoint_writer.h"
#include "train/epoch_clock.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/start.h"
#include "train/train_spec.h"

namespace dtrain::train {

// All references are borrowed and must outlive the saver.
struct SaverParts {
  const TrainSpec& spec;
  const EpochClock& clock;
  const Metrics& training_metrics;
  const LossScale& loss_scale;
  const graph::Graph& graph;
  exec::DeviceGroup& training;
  kvstore::Store& store;
  const double& rate_factor;
  job::Coordinator& coordinator;
  Waits& waits;
  Log log;
  AtomicFile::Fault fault = nullptr;  // for tests: as in CheckpointWriter
  TakeClaim take_claim = nullptr;     // as in TrainParts
};

// All workers call these functions at the same points. A save copies the checkpoint in memory, and a thread writes it
// while training continues. Errors are those of the coordinator and the store; a failure to write a checkpoint is
// returned by the next call that saves, and by check() and finish().
class Saver {
 public:
  explicit Saver(SaverParts parts);

  // Whether this worker is to write a checkpoint within the epoch (--save-every), for which all workers must meet. Only
  // the leader's clock counts.
  [[nodiscard]] bool is_due() const { return parts_.spec.save_every_s > 0 && seconds_to_next_save() <= 0 && writes(); }
  // To be called when every worker has the initial weights, and when the run has gone back to an earlier position.
  // `start`: what all have agreed on. The leader takes the memory for the copies, and warns if the checkpoints will
  // fill the disk. Code::kData if not even one fits.
  Result<> begin(const AgreedStart& start);

  // Collects the parts of a checkpoint that only each worker has. `why` names the wait.
  Result<WorkerStates> gather(const std::string& why);

  // The next two functions are called when all workers have the newest weights and no gradient is in flight.
  Result<> save_last(WorkerStates states);
  // Saves the model at the end of an epoch if save_period makes that due, and removes the oldest checkpoints beyond
  // `keep`.
  Result<> save_epoch();

  // To be called when all workers have the newest weights, with their accuracy at the end of the epoch. If the weights
  // are the best so far, save_epoch(), which must follow, saves them as PREFIX-best too.
  void note_accuracy(double accuracy);

  // Returns the error of a write that has failed; does not wait for one that is in progress.
  [[nodiscard]] Result<> check() const { return writer_ ? writer_->check() : Result<>(); }
  // Waits until the last checkpoint is written.
  Result<> finish() { return writer_ ? writer_->finish() : Result<>(); }
  // Another worker, which has just joined, may lead now: if this one does not, completes its checkpoints. To be called
  // before the new leader writes one.
  Result<> make_way();
  // The best accuracy of the run so far.
  [[nodiscard]] const std::optional<BestAccuracy>& best() const { return best_; }
  // The epochs of the checkpoints that the run has written and not removed.
  [[nodiscard]] const std::vector<int64_t>& kept_epochs() const { return kept_epochs_; }
  // The longest time that this worker has taken to save a checkpoint, until its files were written; 0 if it has written
  // none.
  [[nodiscard]] double longest_save_s() const { return writer_ ? writer_->longest_s() : 0; }
  // To be called after the clock has changed its rule. The following checkpoints are those of this JobSpec,
  // whose workers divide the records anew.
  void set_job(std::string text, std::string hash);

 private:
  [[nodiscard]] bool saves() const { return !parts_.spec.save_prefix.empty(); }
  [[nodiscard]] bool writes() const { return saves() && parts_.coordinator.leads(); }
  // To be called by the leader before it writes. Creates the writer if there is none, because this worker did not lead
  // before.
  Result<> open_writer();
  [[nodiscard]] Result<> check_disk() const;
  [[nodiscard]] double seconds_to_next_save() const;
  [[nodiscard]] OwnState own_state() const { return {parts_.training_metrics.sums(), parts_.loss_scale}; }
  [[nodiscard]] CheckpointHeader header(Position position, const kvstore::TrainingState& state,
                                        WorkerStates states) const;
  // Copies the weights, and if `checkpoint` names one all that belongs to it, and begins to write them.
  Result<> save(std::optional<CheckpointName> checkpoint, Position position, WorkerStates states);
  std::vector<CheckpointName> take_outdated();

  SaverParts parts_;
  std::string job_text_, job_hash_;
  std::unique_ptr<CheckpointWriter> writer_;  // null until this worker leads
  std::optional<BestAccuracy> best_;
  bool best_is_unsaved_ = false;      // whether the weights are the best so far and not saved yet
  std::vector<int64_t> kept_epochs_;  // epochs of the checkpoints that the leader has written and not removed
  SteadyTime last_save_;
};

}  // namespace dtrain::train
