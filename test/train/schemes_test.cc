// Whole trainings by each scheme: workers and servers of one process, each worker a Trainer of its own.
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "../kvstore/cluster.h"
#include "members.h"
#include "toy_run.h"
#include "train/checkpoint.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::Cluster;
using dtrain::test::ClusterOptions;

namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint64_t kEpochSamples = 2 * kToyBatch * kWorkers;  // shares of 9 or 10 records: two batches each

struct Scheme {
  std::string name;
  sync::Policy policy;
  EpochRule epoch;
};

EpochRule rule(bool in_step, bool same_weights, uint64_t workers_in_update) {
  return {.in_step = in_step,
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

// The job of one scheme. Checkpoints are in `dir`.
class Job {
 public:
  Job(const Scheme& scheme, const TempDir& dir, TrainSpec spec, std::vector<std::optional<uint64_t>> stop_at = {}) {
    stop_at.resize(kWorkers);
    spec.save_prefix = dir.path("net");
    cluster_.emplace(cluster_options(scheme, spec));
    for (uint32_t w = 0; w < kWorkers; w++) {
      members_.push_back(std::make_unique<Member>(meetings_, w, stop_at[w]));
      const ToyOptions options{.rank = w, .workers = kWorkers, .epoch = scheme.epoch};
      runs_.push_back(std::make_unique<ToyRun>(spec, options, members_.back().get(), cluster_->release_store(w)));
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
  Cluster& cluster() { return *cluster_; }

 private:
  static ClusterOptions cluster_options(const Scheme& scheme, const TrainSpec& spec) {
    ClusterOptions options{.workers = kWorkers, .servers = 2, .bucket_begin = {0, 2, 4}, .policy = scheme.policy};
    options.rule = {.optimizer = spec.optimizer, .schedule = spec.schedule, .samples_per_epoch = kEpochSamples};
    const graph::Shapes shapes = must(graph::infer_shapes(toy_network(), {1, 6, 6}));
    for (const graph::ParameterInfo& info : shapes.parameters) options.parameters.push_back(info.shape);
    for (const graph::ParameterInfo& info : shapes.statistics) options.statistics.push_back(info.shape);
    return options;
  }

  Meetings meetings_{kWorkers};
  std::vector<std::unique_ptr<Member>> members_;
  std::optional<Cluster> cluster_;  // its network has stopped before the stores end
  std::vector<std::unique_ptr<ToyRun>> runs_;
};

}  // namespace

TEST_CASE("every scheme ends its epochs with one model for all", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    INFO(scheme.name);
    const TempDir dir;
    Job job(scheme, dir, toy_spec("", 3));
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (uint32_t w = 0; w < kWorkers; w++) {
      INFO("worker " << w << ": " << (outcomes[w] ? "" : outcomes[w].error().text()));
      REQUIRE(outcomes[w]);
      CHECK(outcomes[w]->position == Position{3, 0});
      // An epoch is over with the update that reaches its samples; what was under way then counts too.
      CHECK(outcomes[w]->samples >= 3 * kEpochSamples);
      CHECK(outcomes[w]->samples <= 3 * (kEpochSamples + kWorkers * kToyBatch));
      CHECK(outcomes[w]->samples == outcomes[0]->samples);
      CHECK(outcomes[w]->validation_accuracy == outcomes[0]->validation_accuracy);
      CHECK(job.values(w) == job.values(0));
    }
    CHECK(outcomes[0]->validation_accuracy > 0.8);
    const Checkpoint saved = must(read_checkpoint({dir.path("net"), 3}));
    CHECK(saved.header->samples == outcomes[0]->samples);
    CHECK(saved.header->worker_steps.empty() == scheme.epoch.same_weights);
  }
}

// Which groups come of it is a matter of time here (regroup_test.cc), whatever they are.
TEST_CASE("a job whose groups change after each epoch ends all of them with one model", "[train][schemes]") {
  for (const Scheme& scheme : schemes()) {
    if (scheme.name.rfind("gsp", 0) != 0) continue;
    INFO(scheme.name);
    const TempDir dir;
    TrainSpec spec = toy_spec("", 6);
    spec.regroup = {.every = 1, .group_of = scheme.policy.group_of, .is_bounded = scheme.epoch.in_step};
    Job job(scheme, dir, spec);
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (uint32_t w = 0; w < kWorkers; w++) {
      INFO("worker " << w << ": " << (outcomes[w] ? "" : outcomes[w].error().text()));
      REQUIRE(outcomes[w]);
      CHECK(outcomes[w]->position == Position{6, 0});
      CHECK(outcomes[w]->samples >= 6 * kEpochSamples);
      CHECK(outcomes[w]->samples == outcomes[0]->samples);
      CHECK(job.values(w) == job.values(0));
    }
    CHECK(outcomes[0]->validation_accuracy > 0.8);
  }
}

// Each worker is asked at a time of its own, some maybe while they wait for an epoch's end.
TEST_CASE("a job whose workers do not go in step stops and goes on", "[train][schemes]") {
  const Scheme asp = schemes()[1];
  const TempDir dir;
  uint64_t samples = 0;
  std::vector<uint64_t> steps;
  {
    Job job(asp, dir, toy_spec("", 9), {5, 7, 6, 4});
    const std::vector<Result<TrainOutcome>> outcomes = job.run();
    for (const Result<TrainOutcome>& outcome : outcomes) {
      REQUIRE(outcome);
      CHECK(outcome->stopped);
    }
    samples = outcomes[0]->samples;
    steps = must(read_checkpoint({dir.path("net"), std::nullopt})).header->worker_steps;
    REQUIRE(steps.size() == kWorkers);
    CHECK((steps[0] + steps[1] + steps[2] + steps[3]) * kToyBatch == samples);
  }
  TrainSpec spec = toy_spec("", 9);
  spec.start_from = StartFrom{dir.path("net"), std::nullopt};
  Job rest(asp, dir, spec);
  const std::vector<Result<TrainOutcome>> outcomes = rest.run();
  for (const Result<TrainOutcome>& outcome : outcomes) {
    INFO((outcome ? "" : outcome.error().text()));
    REQUIRE(outcome);
    CHECK(samples + outcome->samples >= 9 * kEpochSamples);
    CHECK(outcome->position == Position{9, 0});
  }
  const std::vector<uint64_t> after = must(read_checkpoint({dir.path("net"), 9})).header->worker_steps;
  for (uint32_t w = 0; w < kWorkers; w++) CHECK(after[w] >= steps[w]);
}
