#include "train/saver.h"

#include <algorithm>
#include <utility>

#include "graph/symbol/write.h"
#include "optim/optimizer.h"
#include "train/disk_need.h"

namespace dtrain::train {

Saver::Saver(SaverParts parts)
    : parts_(std::move(parts)), job_text_(parts_.spec.job_text), job_hash_(parts_.spec.job_hash) {}

Result<> Saver::begin(const AgreedStart& start) {
  best_ = start.best;
  best_is_unsaved_ = false;
  kept_epochs_ = start.kept_epochs;
  last_save_ = std::chrono::steady_clock::now();
  if (!writes()) return {};
  DT_TRY_VOID(open_writer());
  return check_disk();
}

Result<> Saver::open_writer() {
  if (writer_ != nullptr) return {};
  CheckpointClaim* claim = nullptr;
  if (parts_.take_claim) {
    DT_TRY(claim, parts_.take_claim(), "taking over the checkpoints");
  }
  writer_ = std::make_unique<CheckpointWriter>(CheckpointWriterOptions{.prefix = parts_.spec.save_prefix,
                                                                       .symbol = graph::symbol_text(parts_.graph),
                                                                       .waits = parts_.waits,
                                                                       .log = parts_.log,
                                                                       .fault = parts_.fault,
                                                                       .claim = claim});
  DT_TRY(std::vector<std::string> slots, optim::state_slots(parts_.spec.optimizer));
  writer_->prepare(parts_.training.parameters(), std::move(slots));
  return {};
}

Result<> Saver::make_way() {
  if (writer_ == nullptr || parts_.coordinator.leads()) return {};
  DT_TRY_VOID(writer_->finish());
  writer_.reset();
  return {};
}

void Saver::set_job(std::string text, std::string hash) {
  job_text_ = std::move(text);
  job_hash_ = std::move(hash);
}

Result<> Saver::check_disk() const {
  const TrainSpec& spec = parts_.spec;
  const int64_t to_come = checkpoints_to_come({.save_period = spec.save_period,
                                               .num_epochs = spec.num_epochs,
                                               .keep = spec.keep,
                                               .finished = parts_.clock.position().epoch,
                                               .on_disk = std::ssize(kept_epochs_)});
  DT_TRY(const std::vector<std::string> slots, optim::state_slots(spec.optimizer));
  const ParameterView& view = parts_.training.parameters();
  const auto bytes_of = [](const std::vector<ParameterSpan>& arrays) {
    double bytes = 0;
    for (const ParameterSpan& array : arrays) bytes += static_cast<double>(array.weight.size_bytes());
    return bytes;
  };
  const double learned = bytes_of(view.parameters), weights = learned + bytes_of(view.statistics);
  const double states = spec.save_optimizer_states ? learned * static_cast<double>(slots.size()) : 0;
  DT_TRY(const std::string warning,
         train::check_disk({.checkpoints = to_come, .checkpoint = weights + states, .best = best_ ? 0 : weights},
                           spec.save_prefix, free_bytes_for(spec.save_prefix)));
  if (!warning.empty()) parts_.log.warn("{}", warning);
  return {};
}

double Saver::seconds_to_next_save() const {
  return parts_.spec.save_every_s -
         std::chrono::duration<double>(std::chrono::steady_clock::now() - last_save_).count();
}

Result<WorkerStates> Saver::gather(const std::string& why) {
  return gather_states(parts_.coordinator, why, own_state());
}

Result<> Saver::save_last(WorkerStates states) {
  last_save_ = std::chrono::steady_clock::now();
  if (!writes()) return {};
  return save(CheckpointName{parts_.spec.save_prefix, std::nullopt}, parts_.clock.position(), std::move(states));
}

Result<> Saver::save_epoch() {
  const int64_t finished = parts_.clock.position().epoch + 1;
  const bool due = parts_.spec.save_period > 0 && finished % parts_.spec.save_period == 0;
  WorkerStates states;
  if (parts_.loss_scale.is_dynamic()) {
    DT_TRY(states, gather("the loss scales"));
  }
  states.metric_sums.clear();  // the next epoch begins with empty metric sums
  if (!saves() || !(due || best_is_unsaved_)) return {};
  if (due) {
    last_save_ = std::chrono::steady_clock::now();
    std::erase_if(kept_epochs_, [&](int64_t epoch) { return epoch >= finished; });
    kept_epochs_.push_back(finished);
  }
  // A worker that does not lead also keeps account of the checkpoints, because it may lead later.
  if (!writes()) {
    best_is_unsaved_ = false;
    static_cast<void>(take_outdated());
    return {};
  }
  if (!due) return save(std::nullopt, {}, {});
  return save(CheckpointName{parts_.spec.save_prefix, finished}, {finished, 0}, std::move(states));
}

// Forgets the oldest checkpoints beyond `keep`, and returns them.
std::vector<CheckpointName> Saver::take_outdated() {
  std::vector<CheckpointName> outdated;
  while (parts_.spec.keep > 0 && std::ssize(kept_epochs_) > parts_.spec.keep) {
    outdated.push_back({parts_.spec.save_prefix, kept_epochs_.front()});
    kept_epochs_.erase(kept_epochs_.begin());
  }
  return outdated;
}

void Saver::note_accuracy(double accuracy) {
  if (best_ && !(accuracy > best_->accuracy)) return;
  best_ = BestAccuracy{parts_.clock.position().epoch, accuracy};
  best_is_unsaved_ = true;
}

CheckpointHeader Saver::header(Position position, const kvstore::TrainingState& state, WorkerStates states) const {
  return {.job_hash = job_hash_,
          .job_text = job_text_,
          .optimizer = parts_.spec.optimizer,
          .position = {position.epoch, position.step, 0, state.updates, state.samples},
          .rest = position.epoch == parts_.clock.position().epoch ? parts_.clock.rest() : data::EpochRest(),
          .learning_rate = parts_.clock.rate_of_next_update(),
          .seed = parts_.spec.seed,
          .metric_sums = std::move(states.metric_sums),
          .loss_scales = std::move(states.loss_scales),
          .worker_steps = parts_.clock.worker_steps(),
          .best = best_,
          .rate_factor = parts_.rate_factor,
          .kept_epochs = parts_.spec.keep > 0 ? kept_epochs_ : std::vector<int64_t>()};
}

Result<> Saver::save(std::optional<CheckpointName> checkpoint, Position position, WorkerStates states) {
  const SteadyTime began = std::chrono::steady_clock::now();
  DT_TRY_VOID(open_writer());
  DT_TRY(Snapshot * snapshot, writer_->next());
  snapshot->began = began;
  DT_TRY_VOID(snapshot->copy_weights(parts_.training.device_parameters()));
  snapshot->is_best = std::exchange(best_is_unsaved_, false);
  snapshot->checkpoint = std::move(checkpoint);
  if (snapshot->checkpoint) {
    DT_TRY_VOID(parts_.store.read_state(snapshot->state), "fetching the optimizer's state for '{}'",
                snapshot->checkpoint->stem());
    snapshot->header = header(position, snapshot->state, std::move(states));
    snapshot->with_states = parts_.spec.save_optimizer_states || !snapshot->checkpoint->epoch;
    snapshot->outdated = take_outdated();
  }
  writer_->write();
  return {};
}

}  // namespace dtrain::train
