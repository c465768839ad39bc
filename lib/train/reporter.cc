#include "train/reporter.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"

namespace dtrain::train {
namespace {

// A network that predicts the class frequencies regardless of the image reaches a loss a little below that of a uniform
// guess. A network that learns at all is well below it, averaged over an epoch.
constexpr double kNotLearned = 0.99;

}  // namespace

Reporter::Reporter(ReporterParts parts)
    : parts_(std::move(parts)),
      speedometer_(parts_.spec.disp_batches, parts_.spec.batch_size),
      pace_(parts_.spec.batch_size),
      batch_times_(parts_.spec.time_batches_after),
      training_times_(parts_.spec.log_time_to),
      validation_times_(parts_.spec.log_time_to),
      decoders_(parts_.spec.decoders) {}

Result<> Reporter::prepare() {
  DT_TRY(training_metrics_, Metrics::create(parts_.spec.metrics));
  validation_metrics_ = training_metrics_;
  if (parts_.coordinator.workers() > 1) {
    parts_.log.info("Resizing training data to {} batches per machine", parts_.training_data.batches());
  }
  return {};
}

Result<> Reporter::begin() {
  const EpochClock& clock = parts_.clock;
  rate_ = clock.rate_of_next_update();
  if (clock.samples() > 0 && rate_ != parts_.spec.schedule.base && is_rank_0()) {
    parts_.log.info("Adjust learning rate to {:e} for epoch {}", rate_, clock.position().epoch);
  }
  if (!parts_.spec.metrics_path.empty()) {
    DT_TRY(metrics_file_, MetricsFile::open(parts_.spec.metrics_path, "worker", parts_.coordinator.rank()));
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
          .pictures = totals.steps * parts_.spec.batch_size,
          .stages = parts_.data == nullptr ? data::Stages{} : parts_.data->stages(),
          .cpu_s = process_cpu_s()};
}

data::CacheUse Reporter::cache_use() const {
  return parts_.data == nullptr ? data::CacheUse{} : parts_.data->cache_use();
}

void Reporter::begin_epoch() {
  if (parts_.clock.position().step == 0) training_metrics_.start_epoch();
  training_metrics_.start_window();
  speedometer_ = Speedometer(parts_.spec.disp_batches, parts_.spec.batch_size);
  at_epoch_ = at_window_ = pace_.totals();
  data_at_epoch_ = data_use();
  cache_at_epoch_ = cache_use();
  batch_times_.begin_epoch(std::chrono::steady_clock::now());
}

void Reporter::note_rate() {
  const double rate = parts_.clock.rate_of_next_update();
  if (rate != rate_ && is_rank_0()) parts_.log.info("{}", learning_rate_line(parts_.clock.updates() + 1, rate));
  rate_ = rate;
}

void Reporter::time_step(SteadyTime begin, SteadyTime::duration data_wait, int64_t samples) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const kvstore::StoreTimes times = parts_.store.times();
  pace_.step(begin, now, data_wait, times.wait_s);
  batch_times_.step(now, data_wait, samples, times);
}

void Reporter::time_wait(SteadyTime begin) {
  pace_.wait(begin, std::chrono::steady_clock::now(), parts_.store.times().wait_s);
}

Result<> Reporter::end_step(double checkpoint_s) {
  std::optional<job::WorkerProgress> progress =
      pace_.report(parts_.clock.own_steps(), std::chrono::steady_clock::now());
  if (progress) {
    const DataUse use = data_use();
    const DataLimit limit = data_limit(use - std::exchange(data_at_report_, use), decoders_);
    progress->data_stage = limit.is_limit ? limit.stage : job::DataStage::kNone;
    progress->checkpoint_s = checkpoint_s;
    parts_.coordinator.report(*progress);
  }
  const int64_t count = parts_.clock.position().step - 1;  // the index of the finished batch, from 0
  const std::optional<Speed> speed = speedometer_.tick(count, std::chrono::steady_clock::now());
  return speed ? report_window(count, *speed) : Result<>{};
}

Result<> Reporter::report_window(int64_t count, const Speed& speed) {
  const std::vector<MetricValue> values = training_metrics_.window();
  parts_.log.info("{}", speed_line({.epoch = parts_.clock.position().epoch,
                                    .count = count,
                                    .batches = speed.batches,
                                    .samples_per_s = speed.samples_per_s,
                                    .values = values},
                                   parts_.spec.log_format));
  const PaceTotals& totals = pace_.totals();
  DT_TRY_VOID(write_metrics({{"train_accuracy", training_metrics_.window_accuracy()},
                             {"train_cross_entropy", training_metrics_.window_cross_entropy()},
                             {"lr", rate_},
                             {"samples_per_s", speed.samples_per_s},
                             {"wait_data_s", totals.wait_data_s - at_window_.wait_data_s},
                             {"wait_network_s", totals.wait_network_s - at_window_.wait_network_s}}));
  DT_TRY_VOID(note_accuracy(false, training_metrics_.epoch_accuracy()));
  training_metrics_.start_window();
  at_window_ = totals;
  return {};
}

// Training accuracy is that of the epoch so far, noted with each speed line: over a few batches alone it would reach
// levels by chance.
Result<> Reporter::note_accuracy(bool validation, double accuracy) {
  if (!is_rank_0()) return {};
  AccuracyTimes& times = validation ? validation_times_ : training_times_;
  const std::span<const TimeToAccuracy> reached = times.note(accuracy, seconds(), parts_.clock.samples());
  if (!reached.empty()) parts_.log.info("{}", reached_line(validation ? "validation" : "train", reached.back()));
  for (const TimeToAccuracy& level : reached) {
    DT_TRY_VOID(write_metrics(
        {{"time_to_accuracy", level.seconds}, {"accuracy", level.accuracy}, {"validation", validation ? 1 : 0}}));
  }
  return {};
}

// Adds how far training has come: the seconds since it began in this process, and the samples of all workers since the
// start of the run.
Result<> Reporter::write_metrics(std::vector<std::pair<std::string, double>> values) {
  const EpochClock& clock = parts_.clock;
  values.emplace_back("seconds", seconds());
  values.emplace_back("samples", static_cast<double>(clock.samples()));
  telemetry::Record record{.epoch = clock.position().epoch, .step = clock.updates(), .values = {}};
  for (const auto& [name, value] : values) {
    if (const auto metric = telemetry::find_metric(name)) record.values.push_back({*metric, value});
  }
  for (const std::unique_ptr<telemetry::Sink>& sink : parts_.sinks) DT_TRY_VOID(sink->write(record));
  return metrics_file_.append({.epoch = clock.position().epoch, .step = clock.updates(), .values = std::move(values)});
}

// Rank 0 warns for all workers, because they have the same weights or soon will.
void Reporter::warn_if_at_chance() {
  const double loss = training_metrics_.epoch_cross_entropy();
  const double chance = training_metrics_.chance_cross_entropy();
  if (!parts_.spec.data_can_be_learned || !(loss >= kNotLearned * chance)) return;
  outcome_.epochs_at_chance++;
  if (!is_rank_0()) return;
  parts_.log.warn(
      "the training loss of epoch {} is {:.4f}, no better than a guess ({:.4f}): the network does not learn at the "
      "rate "
      "{:g}; try a lower one (--lr {:g}), another --initializer or another --seed",
      parts_.clock.position().epoch, loss, chance, rate_, rate_ / 5);
}

Result<> Reporter::end_epoch() {
  batch_times_.end_epoch(std::chrono::steady_clock::now(), parts_.store.times());
  const int64_t epoch = parts_.clock.position().epoch;
  for (const MetricValue& metric : training_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(epoch, "Train", metric));
  }
  parts_.log.info("{}", time_line(epoch, pace_.totals().seconds - at_epoch_.seconds));
  const DataLimit data = data_limit(data_use() - data_at_epoch_, decoders_);
  parts_.log.info("Epoch[{}] {}", epoch, data_limit_text(data, decoders_));
  if (const data::CacheUse cache = cache_use(); cache.any()) {
    parts_.log.info("Epoch[{}] {:.0f} % of the pictures were in the data cache, which has {} of them in {} MiB", epoch,
                    100 * cache.hit_share(cache_at_epoch_), cache.pictures, cache.bytes >> 20);
  }
  warn_if_at_chance();
  outcome_.train_accuracy = training_metrics_.epoch_accuracy();
  DT_TRY_VOID(report_epoch(data));
  return note_accuracy(false, training_metrics_.epoch_accuracy());
}

Result<> Reporter::report_epoch(const DataLimit& data) {
  std::vector<std::pair<std::string, double>> values = {
      {"train_accuracy", training_metrics_.epoch_accuracy()},
      {"train_cross_entropy", training_metrics_.epoch_cross_entropy()},
      {"lr", rate_},
      {"bad_records", static_cast<double>(parts_.training_data.bad_records())},
      {"wait_data_share", data.wait_share},
      {"decode_threads", decoders_.threads}};
  if (data.decoders_busy) values.emplace_back("decoders_busy_share", *data.decoders_busy);
  for (auto& stage : stage_ms(data.stages, "_ms")) values.push_back(std::move(stage));
  if (const data::CacheUse cache = cache_use(); cache.any()) {
    values.emplace_back("cache_hit_share", cache.hit_share(cache_at_epoch_));
    values.emplace_back("cache_bytes", static_cast<double>(cache.bytes));
  }
  return write_metrics(std::move(values));
}

Result<> Reporter::end_validation() {
  const double accuracy = validation_metrics_.epoch_accuracy();
  outcome_.validation_accuracy = accuracy;
  outcome_.best_validation_accuracy = std::max(outcome_.best_validation_accuracy.value_or(accuracy), accuracy);
  if (!is_rank_0()) return {};
  for (const MetricValue& metric : validation_metrics_.epoch()) {
    parts_.log.info("{}", metric_line(parts_.clock.position().epoch, "Validation", metric));
  }
  DT_TRY_VOID(write_metrics({{"validation_accuracy", accuracy}}));
  return note_accuracy(true, accuracy);
}

Result<> Reporter::end_validation_within_epoch() {
  if (!is_rank_0()) return {};
  const Position position = parts_.clock.position();
  for (const MetricValue& metric : validation_metrics_.epoch()) {
    parts_.log.info("{}", batch_metric_line(position.epoch, position.step - 1, "Validation", metric));
  }
  DT_TRY_VOID(write_metrics({{"validation_accuracy", validation_metrics_.epoch_accuracy()}}));
  return note_accuracy(true, validation_metrics_.epoch_accuracy());
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

TrainOutcome Reporter::outcome() const {
  TrainOutcome outcome = outcome_;
  const PaceTotals& totals = pace_.totals();
  outcome.position = parts_.clock.position();
  outcome.time_to_train_accuracy = training_times_.all();
  outcome.time_to_validation_accuracy = validation_times_.all();
  outcome.samples = parts_.clock.samples_in_this_process();
  outcome.samples_per_s = totals.seconds > 0 ? static_cast<double>(outcome.samples) / totals.seconds : 0;
  outcome.wait_data_share = share(totals.wait_data_s, totals);
  outcome.wait_network_share = share(totals.wait_network_s, totals);
  outcome.data_limit = data_limit(data_use() - data_at_begin_, decoders_);
  outcome.bad_records = parts_.training_data.bad_records();
  return outcome;
}

}  // namespace dtrain::train
