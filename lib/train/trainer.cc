#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "graph/symbol.h"
#include "train/checkpoint.h"
#include "train/log_lines.h"
#include "train/metrics_file.h"
#include "train/pace.h"
#include "train/step.h"
#include "train/validation.h"

namespace dtrain::train {
namespace {

// A network that predicts the class frequencies regardless of the image reaches a loss a little below that of a uniform
// guess. A network that learns at all is well below it, averaged over an epoch.
constexpr double kNotLearned = 0.99;

SteadyTime now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

// State that only each worker knows about itself, gathered by rank, and further numbers summed in the same exchange.
struct Gathered {
  std::vector<std::vector<double>> metric_sums;
  std::vector<LossScale::State> loss_scales;
  std::vector<double> sums;
};

class Trainer::Impl {
 public:
  Impl(TrainSpec spec, TrainParts parts);
  Result<TrainOutcome> run();
  [[nodiscard]] TrainOutcome outcome() const;

 private:
  [[nodiscard]] bool is_rank_0() const { return parts_.coordinator.rank() == 0; }
  [[nodiscard]] bool saves() const { return is_rank_0() && !spec_.save_prefix.empty(); }
  [[nodiscard]] int64_t batches() const { return parts_.training_data.batches(); }  // in one pass over the data
  [[nodiscard]] double rate_of_next_update() const;
  [[nodiscard]] bool store_counts_samples() const;

  Result<> begin();
  Result<Start> own_start();
  Result<> agree_on(Start& start);
  Result<bool> train_epoch();
  Result<bool> epoch_is_over();
  Result<bool> agree_to_stop(bool stopping);
  Result<> share_weights();
  Result<const data::LoadedBatch*> next_batch();
  Result<> pace();
  Result<> step();
  Result<> after_step(int64_t count);
  Result<> end_epoch();
  Result<> report_epoch();
  Result<> evaluate();
  Result<> regroup();
  Result<> stop();

  Result<> save(const CheckpointName& name, Position position, Gathered gathered);
  Result<> save_last_if_due();
  [[nodiscard]] double seconds_to_next_save() const;
  [[nodiscard]] uint64_t next_save_meeting() const;
  Result<Gathered> gather(const std::string& why, std::vector<double> more = {});
  void warn_if_at_chance();
  void note_rate();
  void report_progress();
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(now() - began_).count(); }
  Result<> note_accuracy(bool validation, double accuracy);
  Result<> write_metrics(std::vector<std::pair<std::string, double>> values);

  TrainSpec spec_;
  TrainParts parts_;
  StepRunner step_runner_;
  Metrics training_metrics_, validation_metrics_;
  Speedometer speedometer_;
  Pace pace_;
  MetricsFile metrics_file_;
  AccuracyTimes training_times_, validation_times_;
  Regrouper regrouper_;

  Position position_;                   // `step` counts this worker's steps
  uint64_t own_steps_ = 0;              // since the start of the run, including earlier processes
  uint64_t own_steps_at_begin_ = 0;     // own_steps_ when this process began
  std::vector<uint64_t> worker_steps_;  // of all workers at their last meeting; empty: all have made the same number
  uint64_t updates_ = 0;                // the number of the store's next step
  uint64_t samples_ = 0;                // of all workers since the start of the run
  uint64_t samples_at_begin_ = 0;       // samples_ when this process began
  uint64_t unshared_samples_ = 0;       // this worker's samples that only its own moving statistics include
  bool is_reading_ = false;             // a pass over the data is in progress
  SteadyTime step_began_;               // when the last step began
  double rate_ = 0;
  SteadyTime began_;  // when every worker had the initial weights
  SteadyTime last_save_;
  // After this many own steps all workers meet to decide whether a checkpoint within the epoch is due; 0: never.
  uint64_t save_meeting_ = 0;
  SteadyTime last_save_meeting_;
  uint64_t steps_at_save_meeting_ = 0;  // steps of this process at the last save meeting
  PaceTotals at_window_;                // pace_'s totals when the last window began
  PaceTotals at_epoch_;                 // pace_'s totals when the epoch began
  TrainOutcome outcome_;
};

Trainer::Impl::Impl(TrainSpec spec, TrainParts parts)
    : spec_(std::move(spec)),
      parts_(std::move(parts)),
      step_runner_({.graph = parts_.graph,
                    .image = parts_.image,
                    .normalisation = parts_.normalisation,
                    .devices = parts_.training,
                    .bucket_begin = parts_.bucket_begin,
                    .store = parts_.store,
                    .rank = parts_.coordinator.rank(),
                    .workers = parts_.coordinator.workers(),
                    .on_nan = spec_.on_nan,
                    .loss_scale = spec_.loss_scale,
                    .log = parts_.log}),
      speedometer_(spec_.disp_batches, spec_.batch_size),
      pace_(spec_.batch_size),
      training_times_(spec_.log_time_to),
      validation_times_(spec_.log_time_to),
      regrouper_(spec_.regroup, parts_.store, parts_.coordinator, parts_.log) {}

// The learning rate depends on the samples that will have been applied, including those of this update.
double Trainer::Impl::rate_of_next_update() const {
  const auto samples = static_cast<double>(samples_ + spec_.epoch.samples_per_update);
  return optim::learning_rate(spec_.schedule, samples / static_cast<double>(spec_.epoch.samples));
}

// If every step of every worker counts, each worker can compute the sum itself and need not wait for the weights. If a
// worker may leave out a step, only the store knows the sum.
bool Trainer::Impl::store_counts_samples() const {
  return !spec_.epoch.ends_after_fixed_steps || (parts_.coordinator.workers() > 1 && step_runner_.may_skip_steps());
}

Result<Start> Trainer::Impl::own_start() {
  if (!is_rank_0()) return Start{};
  return make_start({.from = spec_.start_from,
                     .initializer = spec_.initializer,
                     .optimizer = spec_.optimizer,
                     .seed = spec_.seed,
                     .job_hash = spec_.job_hash,
                     .job_text = spec_.job_text,
                     .steps_until = [this](int64_t epochs) { return spec_.epoch.steps_until(epochs); },
                     .samples_per_epoch = spec_.epoch.samples,
                     .ends_after_fixed_steps = spec_.epoch.ends_after_fixed_steps},
                    parts_.graph, parts_.training.parameters(), parts_.log);
}

// Only rank 0 has read the checkpoint. Adding its numbers to the other workers' zeros distributes them. The shared
// numbers come first, then for each rank its steps, its loss scale (two numbers) and its metric sums.
Result<> Trainer::Impl::agree_on(Start& start) {
  constexpr size_t kShared = 5;
  const size_t workers = parts_.coordinator.workers();
  const size_t sums = training_metrics_.sums().size();
  const size_t width = 3 + sums;
  std::vector<double> numbers(kShared + workers * width, 0.0);
  if (is_rank_0()) {
    numbers[0] = static_cast<double>(start.position.epoch);
    numbers[1] = static_cast<double>(start.position.step);
    numbers[2] = static_cast<double>(start.state.samples);
    numbers[3] = static_cast<double>(start.state.updates);
    numbers[4] = saves() && spec_.save_every_s > 0 ? 1 : 0;
    const int64_t steps_of_each = spec_.epoch.steps_until(start.position.epoch) + start.position.step;
    for (size_t rank = 0; rank < workers; rank++) {
      const std::span<double> of_rank = std::span(numbers).subspan(kShared + rank * width, width);
      const bool has_own_steps = start.worker_steps.size() == workers;
      of_rank[0] = static_cast<double>(has_own_steps ? start.worker_steps[rank] : static_cast<uint64_t>(steps_of_each));
      if (rank < start.loss_scales.size()) {
        of_rank[1] = start.loss_scales[rank].scale;
        of_rank[2] = static_cast<double>(start.loss_scales[rank].good_steps);
      }
      const bool fits = rank < start.metric_sums.size() && start.metric_sums[rank].size() == sums;
      if (fits) std::ranges::copy(start.metric_sums[rank], of_rank.begin() + 3);  // else: other metrics were in use
    }
  }
  DT_TRY(const std::vector<double> agreed, parts_.coordinator.sum("the start of training", numbers));
  position_ = {static_cast<int64_t>(agreed[0]), static_cast<int64_t>(agreed[1])};
  samples_ = samples_at_begin_ = static_cast<uint64_t>(agreed[2]);
  updates_ = static_cast<uint64_t>(agreed[3]);
  start.state.samples = samples_;
  start.state.updates = updates_;
  const std::span own = std::span(agreed).subspan(kShared + parts_.coordinator.rank() * width, width);
  own_steps_ = own_steps_at_begin_ = static_cast<uint64_t>(own[0]);
  if (agreed[4] > 0) save_meeting_ = own_steps_ + 1;
  step_runner_.loss_scale().restore({own[1], static_cast<int64_t>(own[2])});
  return training_metrics_.set_sums(own.subspan(3));
}

Result<> Trainer::Impl::begin() {
  const EpochRule& epoch = spec_.epoch;
  DT_CHECK(epoch.samples > 0 && epoch.samples_per_step > 0 && epoch.samples_per_update > 0, "an epoch without samples");
  flush_denormals();  // the store may run updates in this thread
  DT_TRY(training_metrics_, Metrics::create(spec_.metrics));
  validation_metrics_ = training_metrics_;
  if (parts_.coordinator.workers() > 1) {
    parts_.log.info("Resizing training data to {} batches per machine", batches());
  }
  DT_TRY(Start start, own_start());
  DT_TRY_VOID(agree_on(start));
  std::vector<ParameterView> devices;
  for (size_t i = 0; i < parts_.training.size(); i++) devices.push_back(parts_.training.device_parameters(i));
  DT_TRY_VOID(copy_to_device(parts_.training.parameters(), devices.front()));
  DT_TRY_VOID(parts_.store.initialize(devices, start.state), "handing out the initial weights");
  rate_ = rate_of_next_update();
  if (samples_ > 0 && rate_ != spec_.schedule.base && is_rank_0()) {
    parts_.log.info("Adjust learning rate to {:e} for epoch {}", rate_, position_.epoch);
  }
  // Opened last, because the file's existence says that training has begun.
  if (!spec_.metrics_path.empty()) {
    DT_TRY(metrics_file_, MetricsFile::open(spec_.metrics_path, "worker", parts_.coordinator.rank()));
  }
  began_ = last_save_ = last_save_meeting_ = now();
  return {};
}

Result<TrainOutcome> Trainer::Impl::run() {
  DT_TRY_VOID(begin());
  while (position_.epoch < spec_.num_epochs) {
    DT_TRY(const bool whole, train_epoch(), "training epoch {}", position_.epoch);
    DT_TRY(const bool stopping, agree_to_stop(!whole));
    if (stopping) {
      DT_TRY_VOID(stop());
      break;
    }
    DT_TRY_VOID(end_epoch());
  }
  return outcome();
}

// Returns false if asked to stop before the end of the epoch.
Result<bool> Trainer::Impl::train_epoch() {
  if (position_.step == 0) training_metrics_.start_epoch();
  training_metrics_.start_window();
  speedometer_ = Speedometer(spec_.disp_batches, spec_.batch_size);
  at_epoch_ = at_window_ = pace_.totals();
  for (;;) {
    DT_TRY(const bool over, epoch_is_over());
    if (over) return true;
    DT_TRY(const bool go, parts_.coordinator.may_begin(updates_));
    if (!go) return false;
    DT_TRY_VOID(step());
    position_.step++;
    own_steps_++;
    DT_TRY_VOID(after_step(position_.step - 1));
  }
}

Result<bool> Trainer::Impl::epoch_is_over() {
  const int64_t next = position_.epoch + 1;
  const SteadyTime begin = now();
  DT_TRY(updates_, parts_.store.next_step());
  if (store_counts_samples()) {
    DT_TRY(samples_, parts_.store.samples_applied());
  }
  if (spec_.epoch.ends_after_fixed_steps) return own_steps_ >= static_cast<uint64_t>(spec_.epoch.steps_until(next));
  // Both calls may have waited for the weights of the last step; that time belongs to the steps.
  pace_.wait(begin, now(), parts_.store.times().wait_s);
  return samples_ >= static_cast<uint64_t>(next) * spec_.epoch.samples;
}

// Waits until no worker has a step in progress. All workers get the same answer to whether to stop: some may have come
// here because the epoch ended, and others because they were asked to stop.
Result<bool> Trainer::Impl::agree_to_stop(bool stopping) {
  if (spec_.epoch.same_weights) return stopping;
  DT_TRY_VOID(step_runner_.wait_for_weights());
  std::vector<double> numbers(1 + parts_.coordinator.workers(), 0.0);
  numbers[0] = stopping ? 1 : 0;
  numbers[1 + parts_.coordinator.rank()] = static_cast<double>(own_steps_);
  DT_TRY(const std::vector<double> all, parts_.coordinator.sum("the end of an epoch or of the job", numbers));
  worker_steps_.assign(all.begin() + 1, all.end());
  return all[0] > 0;
}

// Gives all workers, and the checkpoint, the same model.
Result<> Trainer::Impl::share_weights() {
  DT_TRY_VOID(step_runner_.wait_for_weights());
  DT_TRY_VOID(parts_.store.refresh(), "fetching the newest weights");
  if (store_counts_samples()) {
    DT_TRY(samples_, parts_.store.samples_applied());
  }
  DT_TRY_VOID(parts_.store.share_statistics(std::exchange(unshared_samples_, 0)), "sharing the moving statistics");
  return {};
}

// Workers' shares of the data differ in length, so their passes do too. In BSP a pass is an epoch.
Result<const data::LoadedBatch*> Trainer::Impl::next_batch() {
  const auto length = static_cast<uint64_t>(batches());
  const uint64_t at = own_steps_ % length;
  if (at == 0 || !is_reading_) {
    parts_.training_data.start(static_cast<int64_t>(own_steps_ / length), static_cast<int64_t>(at));
  }
  is_reading_ = true;
  return parts_.training_data.next();
}

void Trainer::Impl::note_rate() {
  const double rate = rate_of_next_update();
  if (rate != rate_ && is_rank_0()) parts_.log.info("{}", learning_rate_line(updates_ + 1, rate));
  rate_ = rate;
}

// --inject step-ms: the wait stands for computation, which lies between fetching the weights and pushing the gradients.
// It comes before a step because the step's weights are requested right after the previous gradients are pushed.
Result<> Trainer::Impl::pace() {
  parts_.kill.reached(own_steps_);
  if (parts_.pacer != nullptr) DT_TRY_VOID(parts_.pacer->wait(step_began_));
  step_began_ = now();
  return {};
}

Result<> Trainer::Impl::step() {
  const SteadyTime begin = now();
  DT_TRY_VOID(pace());
  DT_TRY(const data::LoadedBatch* batch, next_batch());
  const SteadyTime data_ready = now();
  DT_CHECK(batch != nullptr, "the loader ends a pass of {} batches before step {}", batches(), own_steps_);
  note_rate();
  DT_TRY(const bool applied, step_runner_.run(*batch, updates_, parts_.training_data.peek()));
  unshared_samples_ += static_cast<uint64_t>(batch->count);
  if (applied) {
    if (!store_counts_samples()) samples_ += spec_.epoch.samples_per_step;
    DT_TRY_VOID(training_metrics_.add(parts_.training.probabilities(), batch->labels, batch->count));
  }
  // A step that the other workers made without this one is an update nevertheless.
  if (applied || parts_.coordinator.workers() > 1) updates_++;
  pace_.step(begin, data_ready, now(), parts_.store.times().wait_s);
  return {};
}

void Trainer::Impl::report_progress() {
  const std::optional<job::WorkerProgress> progress = pace_.report(own_steps_, now());
  if (progress) parts_.coordinator.report(*progress);
}

// `count`: the index of the finished batch, from 0.
Result<> Trainer::Impl::after_step(int64_t count) {
  report_progress();
  const std::optional<Speed> speed = speedometer_.tick(count, now());
  if (speed) {
    const std::vector<MetricValue> values = training_metrics_.window();
    parts_.log.info("{}", speed_line({.epoch = position_.epoch,
                                      .count = count,
                                      .batches = speed->batches,
                                      .samples_per_s = speed->samples_per_s,
                                      .values = values},
                                     spec_.log_format));
    const PaceTotals& totals = pace_.totals();
    DT_TRY_VOID(write_metrics({{"train_accuracy", training_metrics_.window_accuracy()},
                               {"train_cross_entropy", training_metrics_.window_cross_entropy()},
                               {"lr", rate_},
                               {"samples_per_s", speed->samples_per_s},
                               {"wait_data_s", totals.wait_data_s - at_window_.wait_data_s},
                               {"wait_network_s", totals.wait_network_s - at_window_.wait_network_s}}));
    DT_TRY_VOID(note_accuracy(false, training_metrics_.epoch_accuracy()));
    training_metrics_.start_window();
    at_window_ = totals;
  }
  return save_last_if_due();
}

// Training accuracy is that of the epoch so far, noted with each speed line: over a few batches alone it would reach
// levels by chance.
Result<> Trainer::Impl::note_accuracy(bool validation, double accuracy) {
  if (!is_rank_0()) return {};
  AccuracyTimes& times = validation ? validation_times_ : training_times_;
  const std::span<const TimeToAccuracy> reached = times.note(accuracy, seconds(), samples_);
  if (!reached.empty()) parts_.log.info("{}", reached_line(validation ? "validation" : "train", reached.back()));
  for (const TimeToAccuracy& level : reached) {
    DT_TRY_VOID(write_metrics(
        {{"time_to_accuracy", level.seconds}, {"accuracy", level.accuracy}, {"validation", validation ? 1 : 0}}));
  }
  return {};
}

// Adds how far training has come: the seconds since it began in this process, and the samples of all workers since the
// start of the run.
Result<> Trainer::Impl::write_metrics(std::vector<std::pair<std::string, double>> values) {
  values.emplace_back("seconds", seconds());
  values.emplace_back("samples", static_cast<double>(samples_));
  return metrics_file_.append({.epoch = position_.epoch, .step = updates_, .values = std::move(values)});
}

// Rank 0 warns for all workers, because they have the same weights or soon will.
void Trainer::Impl::warn_if_at_chance() {
  const double loss = training_metrics_.epoch_cross_entropy();
  const double chance = training_metrics_.chance_cross_entropy();
  if (!spec_.data_can_be_learned || !(loss >= kNotLearned * chance)) return;
  outcome_.epochs_at_chance++;
  if (!is_rank_0()) return;
  parts_.log.warn(
      "the training loss of epoch {} is {:.4f}, no better than a guess ({:.4f}): the network does not learn at the "
      "rate "
      "{:g}; try a lower one (--lr {:g}), another --initializer or another --seed",
      position_.epoch, loss, chance, rate_, rate_ / 5);
}

Result<> Trainer::Impl::report_epoch() {
  for (const MetricValue& metric : training_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(position_.epoch, "Train", metric));
  }
  parts_.log.info("{}", time_line(position_.epoch, pace_.totals().seconds - at_epoch_.seconds));
  warn_if_at_chance();
  outcome_.train_accuracy = training_metrics_.epoch_accuracy();
  DT_TRY_VOID(write_metrics({{"train_accuracy", training_metrics_.epoch_accuracy()},
                             {"train_cross_entropy", training_metrics_.epoch_cross_entropy()},
                             {"lr", rate_},
                             {"bad_records", static_cast<double>(parts_.training_data.bad_records())}}));
  return note_accuracy(false, training_metrics_.epoch_accuracy());
}

Result<> Trainer::Impl::end_epoch() {
  const SteadyTime begin = now();
  DT_TRY_VOID(step_runner_.wait_for_weights());
  pace_.wait(begin, now(), parts_.store.times().wait_s);
  DT_TRY_VOID(report_epoch());
  DT_TRY_VOID(share_weights(), "ending epoch {}", position_.epoch);
  const int64_t finished = position_.epoch + 1;
  const bool due = spec_.save_period > 0 && finished % spec_.save_period == 0;
  Gathered gathered;
  if (step_runner_.loss_scale().is_dynamic()) {
    DT_TRY(gathered, gather("the loss scales"));
  }
  gathered.metric_sums.clear();  // the next epoch begins with empty sums
  if (due && saves()) DT_TRY_VOID(save({spec_.save_prefix, finished}, {finished, 0}, std::move(gathered)));
  DT_TRY_VOID(evaluate());
  if (regrouper_.is_due(finished) && finished < spec_.num_epochs) DT_TRY_VOID(regroup());
  position_ = {finished, 0};
  return {};
}

// Uses this worker's own speed, without the time spent waiting for the network.
Result<> Trainer::Impl::regroup() {
  const PaceTotals& totals = pace_.totals();
  const double samples = static_cast<double>((totals.steps - at_epoch_.steps) * spec_.batch_size);
  const double seconds = totals.seconds - at_epoch_.seconds - (totals.wait_network_s - at_epoch_.wait_network_s);
  DT_TRY(const bool changed, regrouper_.run(seconds > 0 ? samples / seconds : 0), "after epoch {}", position_.epoch);
  if (changed) spec_.epoch.samples_per_update = static_cast<uint64_t>(regrouper_.members() * spec_.batch_size);
  return {};
}

Result<> Trainer::Impl::evaluate() {
  if (parts_.inference == nullptr || parts_.validation_data == nullptr) return {};
  DT_TRY_VOID(
      validate(position_.epoch, *parts_.inference, *parts_.validation_data, parts_.coordinator, validation_metrics_));
  const double accuracy = validation_metrics_.epoch_accuracy();
  outcome_.validation_accuracy = accuracy;
  outcome_.best_validation_accuracy = std::max(outcome_.best_validation_accuracy.value_or(accuracy), accuracy);
  if (!is_rank_0()) return {};
  for (const MetricValue& metric : validation_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(position_.epoch, "Validation", metric));
  }
  DT_TRY_VOID(write_metrics({{"validation_accuracy", accuracy}}));
  return note_accuracy(true, accuracy);
}

// Collects for a checkpoint every worker's metric sums of the current epoch and its loss scale. `more` is summed in the
// same exchange.
Result<Gathered> Trainer::Impl::gather(const std::string& why, std::vector<double> more) {
  const size_t workers = parts_.coordinator.workers();
  const std::vector<double>& own = training_metrics_.sums();
  const LossScale& loss_scale = step_runner_.loss_scale();
  const size_t width = 2 + own.size();
  const size_t shared = more.size();
  std::vector<double> numbers = std::move(more);
  numbers.resize(shared + workers * width, 0.0);
  const std::span<double> own_place = std::span(numbers).subspan(shared + parts_.coordinator.rank() * width, width);
  own_place[0] = loss_scale.state().scale;
  own_place[1] = static_cast<double>(loss_scale.state().good_steps);
  std::ranges::copy(own, own_place.begin() + 2);
  DT_TRY(const std::vector<double> all, parts_.coordinator.sum(why, numbers));
  Gathered gathered;
  gathered.sums.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(shared));
  for (size_t rank = 0; rank < workers; rank++) {
    const std::span of_rank = std::span(all).subspan(shared + rank * width, width);
    if (loss_scale.is_dynamic()) gathered.loss_scales.push_back({of_rank[0], static_cast<int64_t>(of_rank[1])});
    gathered.metric_sums.emplace_back(of_rank.begin() + 2, of_rank.end());
  }
  return gathered;
}

Result<> Trainer::Impl::stop() {
  outcome_.stopped = true;
  DT_TRY(Gathered gathered, gather("metrics for the last checkpoint"), "stopping on request");
  DT_TRY_VOID(share_weights(), "stopping on request");
  if (!saves()) return {};
  return save({spec_.save_prefix, std::nullopt}, position_, std::move(gathered));
}

double Trainer::Impl::seconds_to_next_save() const {
  return spec_.save_every_s - std::chrono::duration<double>(now() - last_save_).count();
}

// Called by rank 0. Estimates from the pace since the last meeting; while the pace is poorly known, the next meeting is
// soon.
uint64_t Trainer::Impl::next_save_meeting() const {
  const uint64_t steps = own_steps_ - own_steps_at_begin_;
  const double seconds = std::chrono::duration<double>(now() - last_save_meeting_).count();
  const double left = seconds_to_next_save() > 0 ? seconds_to_next_save() : spec_.save_every_s;
  return own_steps_ + steps_within(left, seconds / static_cast<double>(steps - steps_at_save_meeting_), steps);
}

// --save-every is a time, which passes at a different step on each worker. So rank 0, which writes the checkpoint,
// reads its clock, and all workers agree on the step after which they meet next. Only used if all workers have the same
// weights (BSP).
Result<> Trainer::Impl::save_last_if_due() {
  if (save_meeting_ == 0 || own_steps_ < save_meeting_) return {};
  DT_TRY(const bool over, epoch_is_over());
  if (over) return {};
  std::vector<double> from_rank_0(2, 0.0);
  if (is_rank_0()) from_rank_0 = {seconds_to_next_save() <= 0 ? 1.0 : 0.0, static_cast<double>(next_save_meeting())};
  DT_TRY(Gathered gathered, gather("a checkpoint within an epoch", std::move(from_rank_0)));
  const bool due = gathered.sums[0] > 0;
  save_meeting_ = static_cast<uint64_t>(gathered.sums[1]);
  steps_at_save_meeting_ = own_steps_ - own_steps_at_begin_;
  last_save_meeting_ = now();
  if (!due) return {};
  DT_TRY_VOID(share_weights(), "writing a checkpoint within an epoch");
  if (!saves()) return {};
  return save({spec_.save_prefix, std::nullopt}, position_, std::move(gathered));
}

Result<> Trainer::Impl::save(const CheckpointName& name, Position position, Gathered gathered) {
  DT_TRY(const kvstore::TrainingState state, parts_.store.state(), "fetching the optimizer's state for '{}'",
         name.stem());
  const CheckpointHeader header{.job_hash = spec_.job_hash,
                                .job_text = spec_.job_text,
                                .optimizer = spec_.optimizer,
                                .position = position,
                                .samples = state.samples,
                                .updates = state.updates,
                                .learning_rate = rate_of_next_update(),
                                .seed = spec_.seed,
                                .metric_sums = std::move(gathered.metric_sums),
                                .loss_scales = std::move(gathered.loss_scales),
                                .worker_steps = worker_steps_};
  DT_TRY_VOID(copy_to_host(parts_.training.device_parameters(), parts_.training.parameters()));
  const std::string symbol = graph::symbol_json(parts_.graph);
  const bool with_states = spec_.save_optimizer_states || !name.epoch;
  DT_TRY_VOID(write_checkpoint(name, {.symbol = symbol,
                                      .view = parts_.training.parameters(),
                                      .slots = state.slots,
                                      .header = header,
                                      .with_states = with_states}));
  parts_.log.info("{}", saved_line(name.params_path()));
  if (with_states) parts_.log.info("Saved optimizer state to \"{}\"", name.states_path());
  last_save_ = now();
  return {};
}

TrainOutcome Trainer::Impl::outcome() const {
  TrainOutcome outcome = outcome_;
  const PaceTotals& totals = pace_.totals();
  outcome.position = position_;
  outcome.time_to_train_accuracy = training_times_.all();
  outcome.time_to_validation_accuracy = validation_times_.all();
  outcome.samples = samples_ - samples_at_begin_;
  outcome.samples_per_s = totals.seconds > 0 ? static_cast<double>(outcome.samples) / totals.seconds : 0;
  outcome.wait_data_share = share(totals.wait_data_s, totals);
  outcome.wait_network_share = share(totals.wait_network_s, totals);
  outcome.bad_records = parts_.training_data.bad_records();
  return outcome;
}

Trainer::Trainer(TrainSpec spec, TrainParts parts) : impl_(std::make_unique<Impl>(std::move(spec), std::move(parts))) {}
Trainer::~Trainer() = default;
Result<TrainOutcome> Trainer::run() {
  return impl_->run();
}
TrainOutcome Trainer::outcome() const {
  return impl_->outcome();
}

}  // namespace dtrain::train
