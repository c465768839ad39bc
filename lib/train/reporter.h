// What a worker reports about its run: log lines, metrics.jsonl, its progress, and the metrics of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "data/loading/loader.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "telemetry/record.h"
#include "train/batch_times.h"
#include "train/checkpoint_header.h"
#include "train/data_limit.h"
#include "train/epoch_clock.h"
#include "train/learning.h"
#include "train/log_lines.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/phases.h"
#include "train/run_metrics.h"
#include "train/time_to_accuracy.h"
#include "train/train_spec.h"

namespace dtrain::train {

// All references are borrowed and must outlive the reporter.
struct ReporterParts {
  const TrainSpec& spec;
  const EpochClock& clock;
  const data::Loader& training_data;
  const data::Dataset* data;  // the data that training_data reads; null: the times of their stages are not known
  kvstore::Store& store;
  job::Coordinator& coordinator;
  const StepTimes& step_times;
  telemetry::Registry& registry;
  telemetry::Recorder& recorder;  // begin() adds the file metrics.jsonl to the recorder's sinks
  Log log;
};

class Reporter {
 public:
  explicit Reporter(ReporterParts parts);

  // Creates the metrics and logs the settings with which the run begins. Code::kUsage if a metric does not exist.
  Result<> prepare();
  // To be called when every worker has the initial weights. Opens metrics.jsonl, whose existence shows that training
  // has begun.
  Result<> begin();

  void begin_epoch();
  // The run has gone back to an earlier position; begin_epoch() follows.
  void go_back();
  // To be called before each step. Logs the learning rate if it has changed.
  void note_rate();
  // To be called after a step that ran from `begin` until now and waited for its batch for `data_wait` of this time.
  // `samples`: the number of samples that the step applied.
  void time_step(SteadyTime begin, SteadyTime::duration data_wait, int64_t samples);
  // Counts the time since `begin` as time of training that belongs to no single step, such as the wait for the last
  // weights of an epoch.
  void time_wait(SteadyTime begin);
  // Adds the time since `begin`, excluding the time spent in steps, to the time of this phase.
  void time_phase(Phase phase, SteadyTime begin) {
    phases_.spent(phase, begin);
    speedometer_.leave_out(std::chrono::steady_clock::now() - begin);
  }
  // To be called after each step. `checkpoint_s`: the longest time that this worker has taken to write a checkpoint.
  // Errors: see telemetry::Recorder; the same errors apply to end_epoch() and end_validation().
  Result<> end_step(double checkpoint_s);
  // To be called when the weights of the epoch's last step have arrived.
  Result<> end_epoch();
  // note_validated is called during a validation, when `batches` of `all` batches are done. end_validated is called at
  // its end.
  void note_validated(int64_t batches, int64_t all);
  void end_validated();
  // To be called when validation_metrics() holds the sums of all workers.
  Result<> end_validation();
  // To be called when the epoch, its validation and its checkpoint are over. `best`: the best accuracy of the run, if
  // it is recorded.
  void log_epoch(const std::optional<BestAccuracy>& best) const;
  // Like end_validation(), for a validation within the epoch.
  Result<> end_validation_within_epoch();
  // All workers call it when the last epoch has ended. Writes the times of the batches, if they were requested.
  Result<> end_run();

  void set_decode_threads(int threads) { decoders_.threads = threads; }

  // The metrics accumulated over the current epoch, and over the last validation.
  [[nodiscard]] Metrics& training_metrics() { return training_metrics_; }
  [[nodiscard]] Metrics& validation_metrics() { return validation_metrics_; }
  // This worker's speed in the current epoch, in samples per second, without the time spent waiting for the network.
  [[nodiscard]] double own_speed() const;
  // Updates the metrics of the run and the progress. To be called when the run has ended, in whatever way.
  void show_run();

 private:
  [[nodiscard]] bool leads() const { return parts_.coordinator.leads(); }
  [[nodiscard]] double seconds() const;
  [[nodiscard]] DataUse data_use() const;
  void show(const job::WorkerProgress& progress, const DataLimit& limit);
  Result<> report_window(int64_t count, const Speed& speed);
  Result<> report_epoch(const DataLimit& data);
  void take_validation();
  Result<> report_validation();
  void warn_if_at_chance();
  Result<> note_accuracy(DataSet of, double accuracy);
  void add_use(std::vector<telemetry::Value>& to);
  Result<> write_metrics(std::vector<telemetry::Value> values);

  ReporterParts parts_;
  Metrics training_metrics_, validation_metrics_;
  Speedometer speedometer_;
  Pace pace_;
  job::WorkerProgress progress_;  // the progress that was last reported
  SteadyTime validation_shown_;   // when the coordinator was last told the progress of a validation
  SteadyTime use_written_;        // when add_use() last added values
  BatchTimes batch_times_;
  Phases phases_;
  AccuracyTimes training_times_, validation_times_;
  double rate_ = 0;
  SteadyTime began_;                   // when every worker had the initial weights
  std::optional<Lesson> last_window_;  // the metrics of the last window of this epoch; nullopt: no window has ended yet
  PaceTotals at_window_;               // pace_'s totals when the last window began
  PaceTotals at_epoch_;                // pace_'s totals when the epoch began
  Decoders decoders_;
  DataUse data_at_begin_, data_at_epoch_, data_at_report_;
  std::optional<double> best_validation_accuracy_;
  std::optional<job::Quality> validation_;  // result of the last validation
  SteadyTime epoch_began_;
  telemetry::Registry::Handle ready_batches_;  // keeps the metric of the batches that are ready up to date
};

}  // namespace dtrain::train
