// Gradients of several steps that make one update (--elastic-batch keep).
#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <vector>

#include "../kvstore/cluster.h"
#include "base/random.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/step.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::Cluster;
using dtrain::test::ClusterOptions;

namespace {

constexpr size_t kBatchesOfUpdate = 4, kUpdates = 3;

struct ToyBatch {
  std::vector<float> images = std::vector<float>(kToyBatch * 36);
  std::vector<float> labels = std::vector<float>(kToyBatch);
};

std::vector<ToyBatch> batches() {
  std::vector<ToyBatch> all(kBatchesOfUpdate * kUpdates);
  RandomStream random(7, Use::kFaults, 0);
  for (ToyBatch& batch : all) {
    for (float& value : batch.images) value = static_cast<float>(random.uniform(-1, 1));
    for (float& label : batch.labels) label = static_cast<float>(random.below(kToyClasses));
  }
  return all;
}

// One worker of a job that trains on these batches, kBatchesOfUpdate for each update.
class Worker {
 public:
  Worker(kvstore::Store& store, const graph::Graph& graph)
      : devices_(compile(graph), kToyBatch),
        store_(store),
        runner_({.graph = graph,
                 .inputs = {{.shape = {1, 6, 6}}},
                 .devices = devices_,
                 .bucket_begin = {0, 1},
                 .store = store,
                 .workers = kBatchesOfUpdate,
                 .log = Log::silent()}) {}

  Result<> train(std::span<const ToyBatch> all, size_t worker, size_t workers) {
    const ParameterView& view = devices_.parameters();
    float value = 0;
    for (const ParameterSpan& p : view.parameters) std::ranges::generate(p.weight, [&] { return value += 0.01F; });
    DT_TRY_VOID(store_.initialize({&view, 1}, {}));
    const size_t steps = kBatchesOfUpdate / workers;  // of this worker, for an update
    for (size_t update = 0; update < kUpdates; update++) {
      for (size_t step = 0; step < steps; step++) {
        const ToyBatch& batch = all[update * kBatchesOfUpdate + worker * steps + step];
        DT_TRY_VOID(runner_.launch({Batch::of(batch.images, batch.labels), 1}, update, step + 1 == steps));
        DT_TRY_VOID(runner_.finish());
      }
    }
    return runner_.wait_for_weights();
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const ParameterSpan& p : devices_.parameters().parameters) {
      all.insert(all.end(), p.weight.begin(), p.weight.end());
    }
    return all;
  }

 private:
  static std::unique_ptr<exec::Executor> compile(const graph::Graph& graph) {
    return must(exec::make_reference_backend()->compile(
        graph, {.batch_size = kToyBatch, .inputs = {{.shape = {1, 6, 6}}}, .bucket_begin = {0, 1}}, nullptr));
  }

  exec::DeviceGroup devices_;
  kvstore::Store& store_;
  StepRunner runner_;
};

// The weights after all updates, in a job of this many workers.
std::vector<float> weights_with(size_t workers) {
  const graph::Graph graph = linear_network();
  ClusterOptions options{.workers = static_cast<uint32_t>(workers), .servers = 2, .deterministic = true};
  options.bucket_begin = {0, 1};
  options.rule = {.optimizer = {.momentum = 0.9}, .schedule = {.base = 0.1}, .samples_per_epoch = 60};
  for (const graph::ParameterInfo& info : must(graph::infer_shapes(graph, {1, 6, 6})).parameters) {
    options.parameters.push_back(info.shape);
  }
  Cluster cluster(options);
  std::vector<std::unique_ptr<Worker>> all;
  for (size_t w = 0; w < workers; w++) all.push_back(std::make_unique<Worker>(cluster.store(w), graph));
  const std::vector<ToyBatch> data = batches();
  cluster.on_each([&](uint32_t w) { return all[w]->train(data, w, workers); });
  return all.front()->weights();
}

// Records before which updates it is asked.
class Asked final : public LocalCoordinator {
 public:
  Asked(const std::atomic<bool>& never, uint64_t stop_at = ~uint64_t{0}) : LocalCoordinator(never), stop_at_(stop_at) {}
  Result<bool> may_begin(uint64_t step) override {
    asked.push_back(step);
    return step < stop_at_;
  }
  std::vector<uint64_t> asked;

 private:
  uint64_t stop_at_;
};

const std::atomic<bool> kNotAsked = false;

// An update of three batches, so each epoch of 8 steps has two such updates and one of two batches.
ToyOptions with_three_steps() {
  return {.epoch = EpochRule{.samples = 40, .samples_per_step = 5, .samples_per_update = 5}.with_update_after(3)};
}

TrainSpec with_rate_by_samples(const TempDir& dir) {
  TrainSpec spec = toy_spec(dir.path("net"), 3);
  spec.schedule = {.base = 0.05, .kind = optim::ScheduleSpec::Kind::kPoly, .power = 1, .end_epochs = 3};
  spec.metrics_path = dir.path("metrics.jsonl");
  spec.disp_batches = 1;
  return spec;
}

}  // namespace

TEST_CASE("several batches of one worker make the same update as one batch of several workers", "[train]") {
  const std::vector<float> each_one = weights_with(kBatchesOfUpdate);
  REQUIRE(each_one.size() > 100);
  CHECK(weights_with(1) == each_one);  // the servers add the gradients in the same order, that of the ranks
  const std::vector<float> each_two = weights_with(2);
  for (size_t i = 0; i < each_one.size(); i++) CHECK(std::abs(each_two[i] - each_one[i]) < 1e-5F);
}

TEST_CASE("a run whose updates have several steps stops only between them, and each epoch ends with one", "[train]") {
  const TempDir whole;
  Asked asked(kNotAsked);
  ToyRun run(with_rate_by_samples(whole), with_three_steps(), &asked);
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(outcome->position == Position{3, 0, 24, 9, 120});
  CHECK(asked.asked == std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  // The rate of an update is that of the samples after it: poly falls by 0.05/120 with each of them.
  std::istringstream lines(must(read_file(whole.path("metrics.jsonl"))));
  std::vector<double> rates;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("\"lr\":");
    if (at == std::string::npos || line.find("wait_data_s") == std::string::npos) continue;
    rates.push_back(std::stod(line.substr(at + 5)));
  }
  REQUIRE(rates.size() >= 7);  // the first batch of an epoch ends no window
  const std::vector<double> samples = {15, 15, 30, 30, 30, 40, 40};
  for (size_t i = 0; i < samples.size(); i++) CHECK(rates[i] == Approx(0.05 * (1 - samples[i] / 120)));

  for (const uint64_t stop_at : {0, 1, 2, 3, 7}) {
    INFO("stop before update " << stop_at);
    const TempDir parts;
    Asked stops(kNotAsked, stop_at);
    TrainSpec spec = with_rate_by_samples(parts);
    const auto stopped = ToyRun(spec, with_three_steps(), &stops).run();
    REQUIRE(stopped);
    CHECK(stopped->stopped);
    const uint64_t epoch = stop_at / 3, steps = stop_at % 3 * 3;
    CHECK(stopped->position == Position{static_cast<int64_t>(epoch), static_cast<int64_t>(steps), epoch * 8 + steps,
                                        stop_at, epoch * 40 + steps * 5});
    spec.start_from = StartFrom{spec.save_prefix, std::nullopt};
    REQUIRE(ToyRun(spec, with_three_steps()).run());
    for (const char* file : {"net-0003.params", "net-0003.states"}) {
      CHECK(must(read_file(whole.path(file))) == must(read_file(parts.path(file))));
    }
  }
}
