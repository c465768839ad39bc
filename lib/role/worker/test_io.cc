#include "role/worker/test_io.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>

#include "base/waits.h"
#include "role/setup/labels.h"
#include "role/setup/threads.h"
#include "role/worker/loading.h"
#include "telemetry/metrics_file.h"
#include "train/data_limit.h"
#include "train/pace.h"
#include "train/run_metrics.h"

namespace dtrain::role {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyTime begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// One pass over the data, which measures the speed of reading.
class Pass {
 public:
  Pass(const TestIoSetup& setup, data::LoaderOptions options)
      : setup_(setup),
        options_(std::move(options)),
        loader_(setup.data.train, options_, setup.process.log),
        pace_(options_.batch_size) {}

  // Returns false if the process was asked to stop.
  Result<bool> run() {
    loader_.start(0);
    window_began_ = SteadyClock::now();
    for (;;) {
      DT_TRY(const bool go, setup_.coordinator.may_begin(static_cast<uint64_t>(batches_)));
      if (!go) return false;
      const SteadyTime begin = SteadyClock::now();
      DT_TRY(const data::LoadedBatch* const batch, loader_.next());
      if (batch == nullptr) return true;
      note_batch(begin);
    }
  }

  void log_end(bool whole) const {
    const images::Stages stages = setup_.data.train->stages();
    const double seconds = pace_.totals().seconds;
    std::string text = fmt::format("{} {} images in {:.3f} s with {} decode thread{}: {:.2f} images/s",
                                   whole ? "Read" : "Stopped after", samples(), seconds, options_.threads,
                                   options_.threads == 1 ? "" : "s", speed());
    std::string parts;
    for (const auto& [stage, ms] : train::stage_ms(stages))
      parts += fmt::format("{}{} {:.3g}", parts.empty() ? "" : ", ", stage, ms);
    if (!parts.empty()) text += fmt::format("; ms per image: {}", parts);
    if (loader_.bad_records() > 0) text += fmt::format("; {} broken records were skipped", loader_.bad_records());
    setup_.process.log.info("{}", text);
  }

  // Writes the numbers of log_end to metrics.jsonl. Because this file exists, the run directory is kept.
  Result<> write_metrics() const {
    using telemetry::Metric;
    DT_TRY(const std::unique_ptr<telemetry::MetricsFile> file,
           telemetry::MetricsFile::open(setup_.process.run_dir.path() + "/" + kMetricsFile, "worker",
                                        setup_.coordinator.rank()));
    std::vector<telemetry::Value> values = {{Metric::kSamples, static_cast<double>(samples())},
                                            {Metric::kSeconds, pace_.totals().seconds},
                                            {Metric::kSamplesPerS, speed()},
                                            {Metric::kBadRecords, static_cast<double>(loader_.bad_records())},
                                            {Metric::kDecodeThreads, static_cast<double>(options_.threads)}};
    for (telemetry::Value& stage : train::stage_values(setup_.data.train->stages())) values.push_back(std::move(stage));
    return file->write({.step = static_cast<uint64_t>(batches_), .values = std::move(values)});
  }

  [[nodiscard]] int64_t samples() const { return batches_ * options_.batch_size; }
  [[nodiscard]] double speed() const {
    const double seconds = pace_.totals().seconds;
    return seconds > 0 ? static_cast<double>(samples()) / seconds : 0;
  }
  // Sets the metrics of the run: `samples` read at the rate `speed` by the whole job.
  void show_run(double samples, double speed) const {
    telemetry::Registry& to = *setup_.process.registry;
    to.set(telemetry::Metric::kRunSamples, samples);
    to.set(telemetry::Metric::kRunSamplesPerS, speed);
    train::set_run_use(to, pace_.totals(), data_limit());
  }

 private:
  [[nodiscard]] train::DataLimit data_limit() const {
    const train::PaceTotals& totals = pace_.totals();
    return train::data_limit({.seconds = totals.seconds,
                              .wait_s = totals.wait_data_s,
                              .images = samples(),
                              .stages = setup_.data.train->stages()},
                             decoders(), totals.seconds);
  }
  [[nodiscard]] train::Decoders decoders() const {
    return {.threads = options_.threads, .cores = plan_threads(setup_.process.flags).compute};
  }

  void note_batch(SteadyTime begin) {
    const SteadyTime now = SteadyClock::now();
    pace_.step(begin, now, now - begin, 0);
    batches_++;
    const int64_t every = setup_.process.flags.loop.disp_batches;
    if (batches_ % every == 0) {
      setup_.process.log.info("Batch [{}]\tSpeed: {:.2f} samples/sec", batches_ - 1,
                              static_cast<double>(every * options_.batch_size) / seconds_since(window_began_));
      window_began_ = SteadyClock::now();
    }
    std::optional<job::WorkerProgress> progress = pace_.report(static_cast<uint64_t>(batches_), now);
    if (!progress) return;
    progress->data_stage = data_limit().stage;
    setup_.coordinator.report(*progress);
  }

  const TestIoSetup& setup_;
  const data::LoaderOptions options_;
  data::Loader loader_;
  train::Pace pace_;
  SteadyTime window_began_;
  int64_t batches_ = 0;
};

}  // namespace

Result<train::TrainOutcome> test_io(const TestIoSetup& setup) {
  DT_TRY(std::vector<data::BatchLabel> labels, batch_labels(setup.spec.flags.augment, setup.network.shapes));
  Pass pass(setup, training_loading(setup.process.flags, setup.spec, *setup.data.train, std::move(labels),
                                    setup.coordinator.rank()));
  DT_TRY(const bool whole, pass.run(), "reading the training data");
  pass.log_end(whole);
  DT_TRY_VOID(pass.write_metrics());
  const std::vector<double> own = {static_cast<double>(pass.samples()), pass.speed()};
  DT_TRY(const std::vector<double> all, setup.coordinator.sum("the images that were read", own));
  pass.show_run(all[0], all[1]);
  return train::TrainOutcome{.stopped = !whole, .position = {}};
}

}  // namespace dtrain::role
