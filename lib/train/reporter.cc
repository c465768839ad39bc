#include "train/reporter.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/file.h"
#include "job/process/people.h"
#include "telemetry/metrics_file.h"
#include "telemetry/process_use.h"

namespace dtrain::train {
namespace {

// The minimum time between two records of resource use: a window may last only a few milliseconds, and querying the
// GPU's driver would take a part of that.
constexpr std::chrono::seconds kUseInterval{1};

using telemetry::Metric;
using telemetry::Value;

// Adds the values that have no entry of their own in the catalog of metrics, such as top_k_accuracy_5.
void add_others(std::vector<Value>& to, Metric metric, const std::vector<MetricValue>& values, bool of_epoch = false) {
  for (const MetricValue& value : values) {
    if (value.name == "accuracy" || value.name == "cross-entropy") continue;
    to.push_back({.metric = metric, .value = value.value, .label = value.name, .of_epoch = of_epoch});
  }
}

std::vector<Value> window_values(const Metrics& metrics) {
  std::vector<Value> values = {{Metric::kTrainAccuracy, metrics.window_accuracy()},
                               {Metric::kTrainCrossEntropy, metrics.window_cross_entropy()}};
  add_others(values, Metric::kTrainMetric, metrics.window());
  return values;
}

std::vector<Value> epoch_values(const Metrics& metrics) {
  std::vector<Value> values = {
      {.metric = Metric::kTrainAccuracy, .value = metrics.epoch_accuracy(), .of_epoch = true},
      {.metric = Metric::kTrainCrossEntropy, .value = metrics.epoch_cross_entropy(), .of_epoch = true}};
  add_others(values, Metric::kTrainMetric, metrics.epoch(), true);
  return values;
}

}  // namespace

Reporter::Reporter(ReporterParts parts)
    : parts_(std::move(parts)),
      speedometer_(parts_.spec.disp_batches, parts_.spec.batch_size),
      pace_(parts_.spec.batch_size),
      batch_times_(parts_.spec.time_batches_after),
      phases_(parts_.registry, parts_.step_times),
      training_times_(parts_.spec.log_time_to),
      validation_times_(parts_.spec.log_time_to),
      decoders_(parts_.spec.decoders),
      ready_batches_(parts_.registry.collect([&loader = parts_.training_data](telemetry::Registry& to) {
        to.set(Metric::kReadyBatches, static_cast<double>(loader.ready_batches()));
      })) {}

Result<> Reporter::prepare() {
  DT_TRY(training_metrics_, Metrics::create(parts_.spec.metrics));
  validation_metrics_ = training_metrics_;
  parts_.registry.set(Metric::kEpochsAtChance, 0);
  if (parts_.coordinator.workers() > 1) {
    parts_.log.info("Resizing training data to {} batches per machine", parts_.training_data.batches());
  }
  return {};
}

Result<> Reporter::begin() {
  const EpochClock& clock = parts_.clock;
  rate_ = clock.rate_of_next_update();
  if (clock.samples() > 0 && rate_ != parts_.spec.schedule.base && leads()) {
    parts_.log.info("Adjust learning rate to {:e} for epoch {}", rate_, clock.position().epoch);
  }
  if (!parts_.spec.metrics_path.empty()) {
    DT_TRY(std::unique_ptr<telemetry::Sink> file,
           telemetry::MetricsFile::open(parts_.spec.metrics_path, "worker", parts_.coordinator.rank()));
    parts_.recorder.add(std::move(file));
  }
  began_ = std::chrono::steady_clock::now();
  data_at_begin_ = data_at_report_ = data_use();
  return {};
}

double Reporter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

DataUse Reporter::data_use() const {
  const PaceTotals& totals = pace_.totals();
  return {.seconds = totals.seconds,
          .wait_s = totals.wait_data_s,
          .images = totals.steps * parts_.spec.batch_size,
          .stages = parts_.data == nullptr ? images::Stages{} : parts_.data->stages(),
          .cpu_s = telemetry::process_use().cpu_s};
}

void Reporter::begin_epoch() {
  if (parts_.clock.position().step == 0) training_metrics_.start_epoch();
  training_metrics_.start_window();
  last_window_.reset();
  speedometer_ = Speedometer(parts_.spec.disp_batches, parts_.spec.batch_size);
  at_epoch_ = at_window_ = pace_.totals();
  data_at_epoch_ = data_use();
  epoch_began_ = std::chrono::steady_clock::now();
  batch_times_.begin_epoch(epoch_began_);
}

void Reporter::go_back() {
  best_validation_accuracy_.reset();
  validation_.reset();
}

void Reporter::note_rate() {
  const double rate = parts_.clock.rate_of_next_update();
  if (rate != rate_ && leads()) parts_.log.info("{}", learning_rate_line(parts_.clock.updates() + 1, rate));
  rate_ = rate;
}

void Reporter::time_step(SteadyTime begin, SteadyTime::duration data_wait, int64_t samples) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const kvstore::StoreTimes times = parts_.store.times();
  pace_.step(begin, now, data_wait, times.wait_s);
  phases_.step(begin, data_wait);
  batch_times_.step(now, data_wait, samples, times);
}

void Reporter::time_wait(SteadyTime begin) {
  pace_.wait(begin, std::chrono::steady_clock::now(), parts_.store.times().wait_s);
  phases_.spent(Phase::kOther, begin);
}

Result<> Reporter::end_step(double checkpoint_s) {
  std::optional<job::WorkerProgress> progress =
      pace_.report(parts_.clock.own_steps(), std::chrono::steady_clock::now());
  if (progress) {
    const DataUse use = data_use();
    const DataLimit limit = data_limit(use - std::exchange(data_at_report_, use), decoders_, use.seconds);
    progress->data_stage = limit.is_limit ? limit.stage : job::DataStage::kNone;
    progress->checkpoint_s = checkpoint_s;
    progress->training = {training_metrics_.epoch_cross_entropy(), training_metrics_.epoch_accuracy()};
    progress->validation = validation_;
    progress_ = *progress;
    parts_.coordinator.report(progress_);
    show(progress_, limit);
  }
  const int64_t count = parts_.clock.position().step - 1;  // index of the finished batch, from 0
  const std::optional<Speed> speed = speedometer_.tick(count, std::chrono::steady_clock::now());
  return speed ? report_window(count, *speed) : Result<>{};
}

// Updates the metrics that change between log lines.
void Reporter::show(const job::WorkerProgress& progress, const DataLimit& limit) {
  telemetry::Registry& to = parts_.registry;
  to.set(Metric::kSamplesPerS, progress.samples_per_s);
  to.set(Metric::kWaitDataShare, progress.wait_data_share);
  to.set(Metric::kWaitNetworkShare, progress.wait_network_share);
  to.set(Metric::kStep, static_cast<double>(parts_.clock.updates()));
  to.set(Metric::kDecodeThreads, decoders_.threads);
  if (limit.decoders_busy) to.set(Metric::kDecodersBusyShare, *limit.decoders_busy);
  for (const Value& stage : stage_values(limit.stages)) to.set(stage.metric, stage.value);
  show_run();
}

Result<> Reporter::report_window(int64_t count, const Speed& speed) {
  parts_.log.info("{}", speed_line({.epoch = parts_.clock.position().epoch,
                                    .count = count,
                                    .batches = speed.batches,
                                    .samples_per_s = speed.samples_per_s,
                                    .values = training_metrics_.window()},
                                   parts_.spec.log_format));
  const PaceTotals& totals = pace_.totals();
  std::vector<Value> record = window_values(training_metrics_);
  record.insert(record.end(), {{Metric::kLearningRate, rate_},
                               {Metric::kSamplesPerS, speed.samples_per_s},
                               {Metric::kWaitDataS, totals.wait_data_s - at_window_.wait_data_s},
                               {Metric::kWaitNetworkS, totals.wait_network_s - at_window_.wait_network_s}});
  if (std::chrono::steady_clock::now() - use_written_ >= kUseInterval) add_use(record);
  DT_TRY_VOID(write_metrics(std::move(record)));
  DT_TRY_VOID(note_accuracy(DataSet::kTraining, training_metrics_.epoch_accuracy()));
  last_window_ = Lesson{training_metrics_.window_cross_entropy(), training_metrics_.window_accuracy()};
  training_metrics_.start_window();
  at_window_ = totals;
  return {};
}

// Records the levels that an accuracy reaches. The training accuracy is the mean over the epoch so far, noted with each
// speed line: the accuracy over a few batches would reach levels by chance.
Result<> Reporter::note_accuracy(DataSet of, double accuracy) {
  const bool validation = of == DataSet::kValidation;
  AccuracyTimes& times = validation ? validation_times_ : training_times_;
  const std::span<const TimeToAccuracy> reached = times.note(accuracy, seconds(), parts_.clock.samples());
  if (!leads()) return {};
  if (!reached.empty()) parts_.log.info("{}", reached_line(validation ? "validation" : "train", reached.back()));
  for (const TimeToAccuracy& level : reached) {
    set_reached(parts_.registry, of, level);
    DT_TRY_VOID(write_metrics({{Metric::kTimeToAccuracy, level.seconds},
                               {Metric::kAccuracy, level.accuracy},
                               {Metric::kValidation, validation ? 1.0 : 0.0}}));
  }
  return {};
}

// Writes a record of these values together with the progress of the training: the seconds since it began in this
// process, and the samples of all workers since the start of the run.
Result<> Reporter::write_metrics(std::vector<Value> values) {
  const EpochClock& clock = parts_.clock;
  values.push_back({Metric::kSeconds, seconds()});
  values.push_back({Metric::kSamples, static_cast<double>(clock.samples())});
  return parts_.recorder.write({.epoch = clock.position().epoch, .step = clock.updates(), .values = std::move(values)});
}

// The leader warns for all workers, because they have the same weights or soon will.
void Reporter::warn_if_at_chance() {
  const Lesson lesson =
      last_window_.value_or(Lesson{training_metrics_.epoch_cross_entropy(), training_metrics_.epoch_accuracy()});
  const double chance = training_metrics_.chance_cross_entropy();
  if (!parts_.spec.data_can_be_learned || !is_at_chance(lesson, chance, parts_.clock.updates(), seconds())) return;
  parts_.registry.cell(Metric::kEpochsAtChance).add(1);
  if (!leads()) return;
  parts_.log.warn("{}", at_chance_text(parts_.clock.position().epoch, lesson.loss, chance,
                                       {.in_use = rate_, .usual = parts_.spec.usual_rate}));
}

Result<> Reporter::end_epoch() {
  batch_times_.end_epoch(std::chrono::steady_clock::now(), parts_.store.times());
  const int64_t epoch = parts_.clock.position().epoch;
  for (const MetricValue& metric : training_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(epoch, "Train", metric));
  }
  parts_.log.info("{}", time_line(epoch, pace_.totals().seconds - at_epoch_.seconds));
  const DataLimit data = data_limit(data_use() - data_at_epoch_, decoders_, data_use().seconds);
  parts_.log.info("Epoch[{}] {}", epoch, data_limit_text(data, decoders_));
  warn_if_at_chance();
  parts_.registry.set(Metric::kRunTrainAccuracy, training_metrics_.epoch_accuracy());
  DT_TRY_VOID(report_epoch(data));
  return note_accuracy(DataSet::kTraining, training_metrics_.epoch_accuracy());
}

Result<> Reporter::report_epoch(const DataLimit& data) {
  if (!last_window_) {  // an epoch shorter than a window counts as one window
    for (const Value& value : window_values(training_metrics_)) {
      parts_.registry.set(value.metric, value.value, value.label);
    }
  }
  std::vector<Value> values = epoch_values(training_metrics_);
  values.insert(values.end(), {{Metric::kLearningRate, rate_},
                               {Metric::kBadRecords, static_cast<double>(parts_.training_data.bad_records())},
                               {Metric::kWaitDataShare, data.wait_share},
                               {Metric::kDecodeThreads, static_cast<double>(decoders_.threads)}});
  if (data.decoders_busy) values.push_back({Metric::kDecodersBusyShare, *data.decoders_busy});
  for (Value& stage : stage_values(data.stages)) values.push_back(std::move(stage));
  for (Value& phase : phases_.values()) values.push_back(std::move(phase));
  add_use(values);
  return write_metrics(std::move(values));
}

// Adds the memory and GPU use of this process, as far as it is measured.
void Reporter::add_use(std::vector<Value>& to) {
  constexpr std::array kUse = {Metric::kMemoryBytes, Metric::kGpuBusyShare, Metric::kGpuMemoryBytes, Metric::kGpuPower,
                               Metric::kGpuTemperature};
  for (telemetry::Sample& sample : parts_.registry.snapshot()) {
    if (std::ranges::find(kUse, sample.metric) == kUse.end()) continue;
    to.push_back({sample.metric, sample.value, std::move(sample.label)});
  }
  use_written_ = std::chrono::steady_clock::now();
}

void Reporter::note_validated(int64_t batches, int64_t all) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - validation_shown_ < kReportInterval || all <= 0) return;
  validation_shown_ = now;
  progress_.validated = static_cast<double>(batches) / static_cast<double>(all);
  parts_.coordinator.report(progress_);
}

void Reporter::end_validated() {
  if (std::exchange(progress_.validated, std::nullopt)) parts_.coordinator.report(progress_);
}

void Reporter::take_validation() {
  validation_ =
      progress_.validation = {validation_metrics_.epoch_cross_entropy(), validation_metrics_.epoch_accuracy()};
}

Result<> Reporter::end_validation() {
  take_validation();
  const double accuracy = validation_->accuracy;
  best_validation_accuracy_ = std::max(best_validation_accuracy_.value_or(accuracy), accuracy);
  parts_.registry.set(Metric::kRunValidationAccuracy, accuracy);
  parts_.registry.set(Metric::kRunValidationCrossEntropy, validation_->loss);
  parts_.registry.set(Metric::kBestValidationAccuracy, *best_validation_accuracy_);
  if (!leads()) return note_accuracy(DataSet::kValidation, validation_metrics_.epoch_accuracy());
  for (const MetricValue& metric : validation_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(parts_.clock.position().epoch, "Validation", metric));
  }
  return report_validation();
}

void Reporter::log_epoch(const std::optional<BestAccuracy>& best) const {
  const int64_t epoch = parts_.clock.position().epoch;
  job::EpochSummary end{
      .epoch = epoch + 1,
      .epochs = parts_.spec.num_epochs,
      .loss = training_metrics_.epoch_cross_entropy(),
      .accuracy = training_metrics_.epoch_accuracy(),
      .validation = {},
      .rate = rate_,
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - epoch_began_).count()};
  if (validation_) {
    const bool is_best = best ? best->epoch == epoch : validation_->accuracy >= best_validation_accuracy_;
    end.validation = {validation_->accuracy, validation_->loss, is_best};
  }
  parts_.log.info("{}", epoch_line(end));
}

Result<> Reporter::end_validation_within_epoch() {
  take_validation();
  if (!leads()) return note_accuracy(DataSet::kValidation, validation_metrics_.epoch_accuracy());
  const Position position = parts_.clock.position();
  for (const MetricValue& metric : validation_metrics_.epoch()) {
    parts_.log.info("{}", batch_metric_line(position.epoch, position.step - 1, "Validation", metric));
  }
  return report_validation();
}

Result<> Reporter::report_validation() {
  std::vector<Value> values = {{Metric::kValidationAccuracy, validation_metrics_.epoch_accuracy()},
                               {Metric::kValidationCrossEntropy, validation_metrics_.epoch_cross_entropy()}};
  add_others(values, Metric::kValidationMetric, validation_metrics_.epoch());
  DT_TRY_VOID(write_metrics(std::move(values)));
  return note_accuracy(DataSet::kValidation, validation_metrics_.epoch_accuracy());
}

Result<> Reporter::end_run() {
  DT_TRY(const std::optional<std::string> times, batch_times_.share(parts_.coordinator));
  if (!times || parts_.spec.metrics_path.empty()) return {};
  const std::filesystem::path run_dir = std::filesystem::path(parts_.spec.metrics_path).parent_path();
  return write_file_atomic(run_dir / batch_times_file(parts_.coordinator.rank()), *times);
}

double Reporter::own_speed() const {
  const PaceTotals& totals = pace_.totals();
  const double samples = static_cast<double>((totals.steps - at_epoch_.steps) * parts_.spec.batch_size);
  const double seconds = totals.seconds - at_epoch_.seconds - (totals.wait_network_s - at_epoch_.wait_network_s);
  return seconds > 0 ? samples / seconds : 0;
}

void Reporter::show_run() {
  progress_.step = parts_.clock.own_steps();
  progress_.validated.reset();
  parts_.coordinator.report(progress_);
  telemetry::Registry& to = parts_.registry;
  const PaceTotals& totals = pace_.totals();
  const auto samples = static_cast<double>(parts_.clock.samples_in_this_process());
  to.set(Metric::kRunEpochs, static_cast<double>(parts_.clock.position().epoch));
  to.set(Metric::kRunSamples, samples);
  to.set(Metric::kRunSamplesPerS, totals.seconds > 0 ? samples / totals.seconds : 0);
  set_run_use(to, totals, data_limit(data_use() - data_at_begin_, decoders_, data_use().seconds));
}

}  // namespace dtrain::train
