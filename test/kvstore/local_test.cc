#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "cluster.h"
#include "kvstore/local/device_updater.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<Shape> kShapes = {{10, 7}, {10}, {300, 500}, {3}};

UpdateRule momentum_rule() {
  UpdateRule rule;
  rule.optimizer.weight_decay = 0.01;
  rule.schedule = {.base = 0.05, .factor = 0.5, .step_epochs = {1, 2}, .every_epochs = 0};
  rule.samples_per_epoch = 60;
  return rule;
}

// The gradient of the sum over samples of |w - x|^2 / 2, the sample drawn from its number.
void add_gradient(Arrays& arrays, int64_t sample) {
  for (size_t k = 0; k < kShapes.size(); k++) {
    RandomStream random(4, Use::kTest, static_cast<uint64_t>(sample), k);
    const std::span<const float> w = arrays.weight(k);
    const std::span<float> g = arrays.gradient(k);
    for (size_t i = 0; i < g.size(); i++) g[i] += w[i] - static_cast<float>(random.uniform(-1, 1));
  }
}

void clear_gradients(Arrays& arrays) {
  for (size_t k = 0; k < kShapes.size(); k++) fill(arrays.gradient(k), 0);
}

std::vector<float> weights_of(Arrays& arrays) {
  std::vector<float> weights;
  for (size_t k = 0; k < kShapes.size(); k++) {
    weights.insert(weights.end(), arrays.weight(k).begin(), arrays.weight(k).end());
  }
  return weights;
}

constexpr uint64_t kSteps = 20;
constexpr int64_t kBatch = 6;

std::vector<float> train_alone(int threads, TrainingState* state = nullptr) {
  Arrays arrays(kShapes, {});
  const auto store =
      DeviceUpdater::create({.rule = momentum_rule(), .bucket_begin = {0, 2}, .threads = threads}).value();
  REQUIRE(store->initialize(arrays.view(), {}).has_value());
  for (uint64_t step = 0; step < kSteps; step++) {
    clear_gradients(arrays);
    for (int64_t i = 0; i < kBatch; i++) add_gradient(arrays, static_cast<int64_t>(step) * kBatch + i);
    for (size_t b = 2; b-- > 0;) REQUIRE(store->gradient_ready(b, step, kBatch).has_value());
    for (size_t b = 0; b < 2; b++) REQUIRE(store->weights_wait(b).has_value());
  }
  if (state != nullptr) *state = store->state().value();
  return weights_of(arrays);
}

std::vector<float> train_together(uint32_t workers, TrainingState* state = nullptr) {
  Cluster cluster({.workers = workers,
                   .servers = 2,
                   .parameters = kShapes,
                   .bucket_begin = {0, 2},
                   .rule = momentum_rule(),
                   .bigarray_bound = 1000});
  cluster.initialize();
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = 0; step < kSteps; step++) {
      clear_gradients(cluster.arrays(w));
      const int64_t share = kBatch / workers;
      for (int64_t i = 0; i < share; i++) {
        add_gradient(cluster.arrays(w), static_cast<int64_t>(step) * kBatch + w * share + i);
      }
      DT_TRY_VOID(cluster.step(w, step, static_cast<uint32_t>(share)));
    }
    return {};
  });
  if (state != nullptr) *state = cluster.store(0).state().value();
  return weights_of(cluster.arrays(0));
}

}  // namespace

// Part of V6: momentum, weight decay and a schedule with drops in mid-run; the bits of weights and state.
TEST_CASE("bsp with one worker has the bits of a lone process", "[kvstore]") {
  TrainingState alone, together;
  const std::vector<float> expected = train_alone(1, &alone);
  CHECK(train_together(1, &together) == expected);
  CHECK(train_alone(3) == expected);
  CHECK(alone.samples == kSteps * kBatch);
  CHECK(alone.updates == kSteps);
  CHECK(together.samples == alone.samples);
  CHECK(together.updates == alone.updates);
  REQUIRE(together.slots.size() == alone.slots.size());
  for (size_t i = 0; i < alone.slots.size(); i++) {
    CHECK(together.slots[i].name == alone.slots[i].name);
    CHECK(together.slots[i].values == alone.slots[i].values);
  }
}

// V14 on plain vectors: W workers of batch B and one of W B, the same samples in each step.
TEST_CASE("workers together train as one with their batches joined", "[kvstore]") {
  const std::vector<float> expected = train_alone(1);
  for (const uint32_t workers : {2u, 3u}) {
    const std::vector<float> weights = train_together(workers);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); i++) {
      difference += std::pow(weights[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    CHECK(std::sqrt(difference / norm) <= 1e-5);
    CHECK(difference > 0);  // other sums, other rounding: else the test compares nothing
  }
}

TEST_CASE("a lone process resumes with the same bits", "[kvstore]") {
  Arrays arrays(kShapes, {}), later(kShapes, {});
  const DeviceUpdaterOptions options{.rule = momentum_rule()};
  const auto step_all = [](DeviceUpdater& store, Arrays& arrays, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; step++) {
      clear_gradients(arrays);
      add_gradient(arrays, static_cast<int64_t>(step));
      REQUIRE(store.gradient_ready(0, step, 10).has_value());
    }
  };
  const auto first = DeviceUpdater::create(options).value();
  REQUIRE(first->initialize(arrays.view(), {}).has_value());
  step_all(*first, arrays, 0, 5);
  const TrainingState state = first->state().value();
  for (size_t k = 0; k < kShapes.size(); k++) {
    std::copy(arrays.weight(k).begin(), arrays.weight(k).end(), later.weight(k).begin());
  }
  const auto second = DeviceUpdater::create(options).value();
  REQUIRE(second->initialize(later.view(), state).has_value());
  step_all(*first, arrays, 5, 12);
  step_all(*second, later, 5, 12);
  CHECK(weights_of(arrays) == weights_of(later));
  CHECK(second->state().value().slots[2].values == first->state().value().slots[2].values);
}

TEST_CASE("a cancelled store says why", "[kvstore]") {
  const auto store = DeviceUpdater::create({.rule = momentum_rule()}).value();
  Arrays arrays(kShapes, {});
  REQUIRE(store->initialize(arrays.view(), {}).has_value());
  store->cancel({Code::kPreempted, "asked to stop", {}});
  CHECK(store->gradient_ready(0, 0, 1).error().message == "asked to stop");
  CHECK(store->weights_wait(0).error().message == "asked to stop");
  CHECK(DeviceUpdater::create({.rule = {.optimizer = {.name = "nonesuch"}}}).error().code == Code::kUsage);
}
