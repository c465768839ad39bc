
#include <algorithm>

#include "kvstore/plain_training.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

std::vector<float> train_together(uint32_t workers, TrainingState* state = nullptr,
                                  const std::string& optimizer = "sgd") {
  Cluster cluster({.workers = workers,
                   .servers = 2,
                   .parameters = kPlainShapes,
                   .bucket_begin = {0, 2},
                   .rule = momentum_rule(optimizer),
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

// With momentum, weight decay and a schedule that drops in the middle of the run: weights and state have the same bits.
TEST_CASE("bsp with one worker has the bits of a single process, under every optimizer", "[kvstore]") {
  const std::string optimizer = GENERATE(from_range(optim::optimizer_names()));
  INFO(optimizer);
  if (optim::uses_norms({.name = optimizer})) return;  // servers cannot update by it
  TrainingState alone, together;
  const std::vector<float> expected = train_alone(1, &alone, optimizer);
  CHECK(train_together(1, &together, optimizer) == expected);
  CHECK(train_alone(3, nullptr, optimizer) == expected);
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

// W workers of batch B and one worker of batch W B, with the same samples in each step.
TEST_CASE("several workers train like one worker with their combined batch", "[kvstore]") {
  const std::vector<float> expected = train_alone(1);
  for (const uint32_t workers : {2u, 3u}) {
    const std::vector<float> weights = train_together(workers);
    const double difference = relative_difference(weights, expected);
    CHECK(difference <= 1e-5);
    CHECK(difference > 0);  // other sums are rounded differently; otherwise the test would compare nothing
  }
}

TEST_CASE("a single process resumes with the same bits, under every optimizer", "[kvstore]") {
  const std::string optimizer = GENERATE(from_range(optim::optimizer_names()));
  INFO(optimizer);
  Arrays arrays(kPlainShapes, {}), later(kPlainShapes, {});
  Waits waits;
  const DeviceStoreOptions options{.rule = momentum_rule(optimizer)};
  const auto step_all = [](Store& store, Arrays& arrays, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; step++) {
      clear_gradients(arrays);
      add_gradient(arrays, static_cast<int64_t>(step));
      REQUIRE(store.gradient_ready(0, step, 10).has_value());
    }
  };
  const auto first = lone_store(options, waits);
  REQUIRE(first->initialize({&arrays.view(), 1}, {}).has_value());
  step_all(*first, arrays, 0, 5);
  const TrainingState state = first->state().value();
  for (size_t k = 0; k < kPlainShapes.size(); k++) {
    std::copy(arrays.weight(k).begin(), arrays.weight(k).end(), later.weight(k).begin());
  }
  const auto second = lone_store(options, waits);
  REQUIRE(second->initialize({&later.view(), 1}, state).has_value());
  step_all(*first, arrays, 5, 12);
  step_all(*second, later, 5, 12);
  CHECK(weights_of(arrays) == weights_of(later));
  const TrainingState left = first->state().value(), right = second->state().value();
  for (size_t i = 0; i < left.slots.size(); i++) CHECK(left.slots[i].values == right.slots[i].values);
}

TEST_CASE("a store of one process applies each array's own learning rate", "[kvstore]") {
  Waits waits;
  Arrays arrays(kPlainShapes, {});
  ParameterView view = arrays.view();
  view.parameters[0].rule.learning_rate = 0;
  const auto store = lone_store({.rule = momentum_rule()}, waits);
  REQUIRE(store->initialize({&view, 1}, {}).has_value());
  const auto copy_of = [&](size_t key) {
    return std::vector<float>(arrays.weight(key).begin(), arrays.weight(key).end());
  };
  const std::vector<float> fixed = copy_of(0), other = copy_of(1);
  clear_gradients(arrays);
  add_gradient(arrays, 1);
  REQUIRE(store->gradient_ready(0, 0, 10).has_value());
  CHECK(copy_of(0) == fixed);
  CHECK(copy_of(1) != other);
}

TEST_CASE("a canceled store returns the cause", "[kvstore]") {
  Waits waits;
  const auto store = lone_store({.rule = momentum_rule()}, waits);
  Arrays arrays(kPlainShapes, {});
  REQUIRE(store->initialize({&arrays.view(), 1}, {}).has_value());
  store->cancel({Code::kPreempted, "asked to stop", {}});
  CHECK(store->gradient_ready(0, 0, 1).error().message == "asked to stop");
  CHECK(store->wait_for_weights(0).error().message == "asked to stop");
  CHECK(DeviceStore::create({.rule = {.optimizer = {.name = "nonesuch"}}}, {}, nullptr, waits).error().code ==
        Code::kUsage);
}
