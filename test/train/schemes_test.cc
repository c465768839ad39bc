// Whole training runs with each scheme: workers and servers in one process, with one Trainer per worker.
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "../kvstore/cluster.h"
#include "members.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/checkpoint.h"
#include "train/rate_request.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::Cluster;
using dtrain::test::ClusterOptions;

namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint64_t kEpochSamples = 2 * kToyBatch * kWorkers;  // shares of 9 or 10 records, which make two batches

struct Scheme {
  std::string name;
  sync::Policy policy;
  EpochRule epoch;
};

EpochRule rule(bool ends_after_fixed_steps, bool same_weights, uint64_t workers_in_update) {
  return {.ends_after_fixed_steps = ends_after_fixed_steps,
          .same_weights = same_weights,
          .samples = kEpochSamples,
          .samples_per_step = kEpochSamples / 2,
          .samples_per_update = workers_in_update * kToyBatch};
}

std::vector<Scheme> schemes() {
  return {{"bsp", {}, rule(true, true, 4)},
          {"asp", sync::asp(4), rule(false, false, 1)},
          {"ssp", sync::ssp(4, 1), rule(true, false, 1)},
          {"gsp", sync::gsp({0, 0, 1, 1}), rule(false, false, 2)},
          {"gsp with a bound", sync::gsp({0, 1, 1, 1}, 1), rule(true, false, 3)},
          {"backup", sync::bsp(4, 1), rule(false, false, 3)}};
}

// Passes everything on to another store, and counts what all workers push. A worker that collects the state for a
// checkpoint waits a moment first, so that the other workers could push something.
class WatchedStore final : public kvstore::Store {
 public:
  struct Watch {
    std::atomic<uint64_t> pushes = 0;    // of buckets, by all workers
    std::vector<uint64_t> at_snapshots;  // `pushes` when each checkpoint's state had been collected
  };
  WatchedStore(std::unique_ptr<kvstore::Store> store, Watch& watch) : store_(std::move(store)), watch_(watch) {}

  Result<> initialize(std::span<const ParameterView> devices, const kvstore::TrainingState& state) override {
    return store_->initialize(devices, state);
  }
  Result<uint64_t> next_step() override { return store_->next_step(); }
  Result<> gradient_ready(kvstore::DeviceBucket at, uint64_t step, uint32_t samples) override {
    watch_.pushes++;
    return store_->gradient_ready(at, step, samples);
  }
  Result<> wait_for_weights(kvstore::DeviceBucket at) override { return store_->wait_for_weights(at); }
  Result<uint64_t> samples_applied() override { return store_->samples_applied(); }
  Result<> share_statistics(uint64_t samples) override { return store_->share_statistics(samples); }
  Result<> refresh() override { return store_->refresh(); }
  Result<> set_rate(const kvstore::RateChange& change, bool for_servers) override {
    return store_->set_rate(change, for_servers);
  }
  Result<> read_state(kvstore::TrainingState& state) override {
    const uint64_t before = watch_.pushes;
    const auto moment = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (watch_.pushes == before && std::chrono::steady_clock::now() < moment) std::this_thread::yield();
    DT_TRY_VOID(store_->read_state(state));
    watch_.at_snapshots.push_back(watch_.pushes);
    return {};
  }
  void cancel(Error error) override { store_->cancel(std::move(error)); }
  [[nodiscard]] kvstore::StoreTimes times() const override { return store_->times(); }
  [[nodiscard]] kvstore::GroupedStore* groups() override { return store_->groups(); }

 private:
  std::unique_ptr<kvstore::Store> store_;
  Watch& watch_;
};

struct JobOptions {
  std::vector<std::optional<uint64_t>> stop_at = {};  // by worker
  ToyDataset::Change change = nullptr;                // applied to the images of worker 1
  graph::Graph network = toy_network();
  std::vector<size_t> bucket_begin = {0, 2, 4};
  bool validates = true;
  WatchedStore::Watch* watch = nullptr;
  std::function<void(uint64_t)> before_step = nullptr;  // of worker 0
};

// The job of one scheme. Checkpoints are written to `dir`.
class Job {
 public:
  Job(const Scheme& scheme, const TempDir& dir, TrainSpec spec, JobOptions options = {}) {
    options.stop_at.resize(kWorkers);
    spec.save_prefix = dir.path("net");
    cluster_.emplace(cluster_options(scheme, spec, options));
    for (uint32_t w = 0; w < kWorkers; w++) {
      members_.push_back(std::make_unique<Member>(meetings_, w, options.stop_at[w]));
      if (w == 0) members_.back()->before_step = options.before_step;
      members_.back()->meets_before_steps = spec.save_every_s > 0;
      const ToyOptions toy{.change = w == 1 ? options.change : nullptr,
                           .network = options.network,
                           .rank = w,
                           .workers = kWorkers,
                           .bucket_begin = options.bucket_begin,
                           .epoch = scheme.epoch,
                           .validates = options.validates};
      std::unique_ptr<kvstore::Store> store = cluster_->release_store(w);
      if (options.watch != nullptr) store = std::make_unique<WatchedStore>(std::move(store), *options.watch);
      runs_.push_back(std::make_unique<ToyRun>(spec, toy, members_.back().get(), std::move(store)));
    }
  }
  ~Job() { cluster_->network().stop(); }

  std::vector<Result<TrainOutcome>> run() {
    std::vector<Result<TrainOutcome>> outcomes(kWorkers, TrainOutcome{});
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < kWorkers; w++) {
      threads.emplace_back([&, w] { outcomes[w] = runs_[w]->run(); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }
  std::vector<float> values(uint32_t worker) {
    std::vector<float> all;
    const ParameterView& view = runs_[worker]->training().parameters();
    for (const auto* spans : {&view.parameters, &view.statistics}) {
      for (const ParameterSpan& span : *spans) all.insert(all.end(), span.weight.begin(), span.weight.end());
    }
    return all;
  }
  ToyRun& run(uint32_t worker) { return *runs_[worker]; }

 private:
  static ClusterOptions cluster_options(const Scheme& scheme, const TrainSpec& spec, const JobOptions& job) {
    ClusterOptions options{.workers = kWorkers,
                           .servers = 2,
                           .bucket_begin = job.bucket_begin,
                           .policy = scheme.policy,
                           .deterministic = true};
    options.rule = {.optimizer = spec.optimizer, .schedule = spec.schedule, .samples_per_epoch = kEpochSamples};
    const graph::Shapes shapes = must(graph::infer_shapes(job.network, {1, 6, 6}));
    for (const graph::ParameterInfo& info : shapes.parameters) options.parameters.push_back(info.shape);
    for (const graph::ParameterInfo& info : shapes.statistics) options.statistics.push_back(info.shape);
    return options;
  }

  Meetings meetings_{kWorkers};
  std::vector<std::unique_ptr<Member>> members_;
  std::optional<Cluster> cluster_;  // declared first, so that its network has stopped before the stores are destroyed
  std::vector<std::unique_ptr<ToyRun>> runs_;
};

}  // namespace

TEST_CASE("all workers have the same model at the end of each epoch under every scheme", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    INFO(scheme.name);
    const TempDir dir;
    Job job(scheme, dir, toy_spec("", 3));
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (uint32_t w = 0; w < kWorkers; w++) {
      INFO("worker " << w << ": " << (outcomes[w] ? "" : outcomes[w].error().text()));
      REQUIRE(outcomes[w]);
      CHECK(is_at(outcomes[w]->position, 3, 0));
      // An epoch ends with the update that reaches its samples; steps in progress at that time are also counted.
      CHECK(job.run(w).samples() >= 3 * kEpochSamples);
      CHECK(job.run(w).samples() <= 3 * (kEpochSamples + kWorkers * kToyBatch));
      CHECK(job.run(w).samples() == job.run(0).samples());
      CHECK(job.run(w).metric(telemetry::Metric::kRunValidationAccuracy) ==
            job.run(0).metric(telemetry::Metric::kRunValidationAccuracy));
      CHECK(job.values(w) == job.values(0));
    }
    CHECK(job.run(0).metric(telemetry::Metric::kRunValidationAccuracy) > 0.8);
    const Checkpoint saved = must(read_checkpoint({dir.path("net"), 3}));
    CHECK(saved.header->position.samples == job.run(0).samples());
    CHECK(saved.header->worker_steps.empty() == scheme.epoch.same_weights);
  }
}

// No worker pushes anything between the end of an epoch and the moment at which rank 0 has collected the checkpoint.
TEST_CASE("an epoch's checkpoint has weights and states from the same moment", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    if (scheme.epoch.same_weights) continue;  // a round of BSP waits for rank 0
    for (const bool validates : {true, false}) {
      for (const bool normalizes : {true, false}) {
        INFO(scheme.name << (validates ? ", validation data" : "") << (normalizes ? ", batch norm" : ""));
        const TempDir dir;
        WatchedStore::Watch watch;
        JobOptions options{.validates = validates, .watch = &watch};
        if (!normalizes) {
          options.network = linear_network();
          options.bucket_begin = {0};
        }
        Job job(scheme, dir, toy_spec("", 3), options);
        for (const Result<TrainOutcome>& outcome : job.run()) {
          INFO((outcome ? "" : outcome.error().text()));
          REQUIRE(outcome);
        }
        REQUIRE(watch.at_snapshots.size() == 3);
        for (int64_t epoch = 1; epoch <= 3; epoch++) {
          const Checkpoint saved = must(read_checkpoint({dir.path("net"), epoch}));
          uint64_t steps = 0;
          for (const uint64_t of_worker : saved.header->worker_steps) steps += of_worker;
          CHECK(watch.at_snapshots[static_cast<size_t>(epoch - 1)] == steps * options.bucket_begin.size());
        }
      }
    }
  }
}

// Only rank 0 has a clock for this and writes. The checkpoint also holds what only the other workers know.
TEST_CASE("a mid-epoch checkpoint has the metric sums and statistics of all workers", "[train][schemes]") {
  const Scheme bsp = schemes()[0];
  const TempDir whole, parts;
  TrainSpec spec = toy_spec("", 3);
  spec.save_every_s = 1e-9;  // between all steps
  Job job(bsp, whole, spec);
  for (const Result<TrainOutcome>& outcome : job.run()) REQUIRE(outcome);
  const Checkpoint last = must(read_checkpoint({whole.path("net"), std::nullopt}));
  CHECK(is_at(last.header->position, 2, 1));
  REQUIRE(last.header->metric_sums.size() == kWorkers);
  for (const std::vector<double>& sums : last.header->metric_sums) CHECK(sums.at(0) == kToyBatch);
  CHECK(must(read_checkpoint({whole.path("net"), 3})).header->worker_steps.empty());  // not those of the last border

  for (const char* file : {"net-last.params", "net-last.states"}) {
    std::filesystem::copy_file(whole.path(file), parts.path(file));
  }
  TrainSpec rest = toy_spec("", 3);
  rest.start_from = StartFrom{parts.path("net"), std::nullopt};
  Job resumed(bsp, parts, rest);
  for (const Result<TrainOutcome>& outcome : resumed.run()) REQUIRE(outcome);
  const auto epoch = [](Job& of, uint32_t worker) {
    std::vector<std::string> found;
    for (const std::string& line : of.run(worker).lines()) {
      if (line.starts_with("Epoch[2] Train-") || line.starts_with("Epoch[2] Validation-")) found.push_back(line);
    }
    return found;
  };
  for (uint32_t w = 0; w < kWorkers; w++) {
    INFO("worker " << w);
    CHECK(resumed.values(w) == job.values(w));
    CHECK_FALSE(epoch(job, w).empty());
    CHECK(epoch(resumed, w) == epoch(job, w));
  }
}

// Some images of one worker are not finite. Its step and those of the other workers of the round then count for no
// sample. Shares have 9 or 10 records in two batches, so the bad record spoils one of the worker's two steps in an
// epoch.
TEST_CASE("all workers count the skipped steps of one worker as the store does", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    if (!scheme.epoch.ends_after_fixed_steps) continue;
    INFO(scheme.name);
    const TempDir dir;
    TrainSpec spec = toy_spec("", 3);
    spec.on_nan = job::OnNan::kSkip;
    std::atomic<bool> bad_record_seen = false;
    const auto change = [&](int64_t index, std::span<float> image) {
      if (index % 9 != 0) return;
      bad_record_seen = true;
      image[0] = std::numeric_limits<float>::quiet_NaN();
    };
    Job job(scheme, dir, spec, {.change = change});
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (const Result<TrainOutcome>& outcome : outcomes) REQUIRE(outcome);
    const uint64_t in_store = must(read_checkpoint({dir.path("net"), 3})).header->position.samples;
    CHECK(bad_record_seen);
    CHECK(in_store < 3 * kEpochSamples);
    CHECK(in_store >= 3 * kEpochSamples - 6 * kToyBatch * kWorkers);
    for (uint32_t w = 0; w < kWorkers; w++) CHECK(job.run(w).samples() == in_store);
  }
}

// With next to no rate the weights stand still, so every slice has the new rate from the first update on.
TEST_CASE("a rate that is asked for is that of all workers and servers in every scheme", "[train][schemes]") {
  constexpr int64_t kEpochs = 10;
  for (const Scheme& scheme : schemes()) {
    INFO(scheme.name);
    const TempDir dir;
    TrainSpec spec = toy_spec("", kEpochs);
    spec.optimizer = {.momentum = 0, .weight_decay = 0};
    spec.schedule = {.base = 0.05};
    spec.metrics_path = dir.path("metrics.jsonl");
    bool asked = false;
    const auto ask = [&](uint64_t step) {
      if (step < 5 || std::exchange(asked, true)) return;  // a late worker may leave steps out
      must(request_rate(spec.metrics_path, must(parse_rate_request("x1e-12"))));
    };
    Job job(scheme, dir, spec, {.before_step = ask});
    for (const Result<TrainOutcome>& outcome : job.run()) REQUIRE(outcome);
    int64_t lowered = 1;
    while (lowered < kEpochs && must(read_checkpoint({dir.path("net"), lowered})).header->rate_factor == 1) lowered++;
    REQUIRE(lowered < kEpochs);
    const Checkpoint then = must(read_checkpoint({dir.path("net"), lowered}));
    const Checkpoint last = must(read_checkpoint({dir.path("net"), kEpochs}));
    CHECK(last.header->position.samples > then.header->position.samples);
    for (size_t i = 0; i < then.parameters.size(); i++) {
      for (size_t j = 0; j < then.parameters[i].values.size(); j++) {
        REQUIRE(last.parameters[i].values[j] == Approx(then.parameters[i].values[j]).margin(1e-9));
      }
    }
  }
}

// Which groups are formed depends on timing here (regroup_test.cc tests that); the checks hold for any groups.
TEST_CASE("all workers have the same model at the end of each epoch if groups change", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    if (scheme.name.rfind("gsp", 0) != 0) continue;
    INFO(scheme.name);
    const TempDir dir;
    TrainSpec spec = toy_spec("", 6);
    spec.regroup = {.every = 1, .policy = scheme.policy};
    Job job(scheme, dir, spec);
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (uint32_t w = 0; w < kWorkers; w++) {
      INFO("worker " << w << ": " << (outcomes[w] ? "" : outcomes[w].error().text()));
      REQUIRE(outcomes[w]);
      CHECK(is_at(outcomes[w]->position, 6, 0));
      CHECK(job.run(w).samples() >= 6 * kEpochSamples);
      CHECK(job.run(w).samples() == job.run(0).samples());
      CHECK(job.values(w) == job.values(0));
    }
    CHECK(job.run(0).metric(telemetry::Metric::kRunValidationAccuracy) > 0.8);
  }
}

// Each worker is asked to stop at another time, possibly while it waits for the end of an epoch.
TEST_CASE("a job of asynchronous workers can be stopped and resumed", "[train][schemes]") {
  const Scheme asp = schemes()[1];
  const TempDir dir;
  uint64_t samples = 0;
  std::vector<uint64_t> steps;
  {
    Job job(asp, dir, toy_spec("", 9), {.stop_at = {5, 7, 6, 4}});
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (const Result<TrainOutcome>& outcome : outcomes) {
      REQUIRE(outcome);
      CHECK(outcome->stopped);
    }
    samples = job.run(0).samples();
    steps = must(read_checkpoint({dir.path("net"), std::nullopt})).header->worker_steps;
    REQUIRE(steps.size() == kWorkers);
    CHECK((steps[0] + steps[1] + steps[2] + steps[3]) * kToyBatch == samples);
  }
  TrainSpec spec = toy_spec("", 9);
  spec.start_from = StartFrom{dir.path("net"), std::nullopt};
  Job rest(asp, dir, spec);
  const std::vector<Result<TrainOutcome>> outcomes = rest.run();
  for (uint32_t w = 0; w < kWorkers; w++) {
    const Result<TrainOutcome>& outcome = outcomes[w];
    INFO((outcome ? "" : outcome.error().text()));
    REQUIRE(outcome);
    CHECK(samples + rest.run(w).samples() >= 9 * kEpochSamples);
    CHECK(is_at(outcome->position, 9, 0));
  }
  const std::vector<uint64_t> after = must(read_checkpoint({dir.path("net"), 9})).header->worker_steps;
  for (uint32_t w = 0; w < kWorkers; w++) CHECK(after[w] >= steps[w]);
}
