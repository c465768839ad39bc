#include "kvstore/worker/device_store.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "comm/shared_memory.h"
#include "kvstore/plain_training.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

const std::vector<Shape> kStatistics = {{10}, {17}};
const std::vector<size_t> kBuckets = {0, 2};
constexpr std::array kOneHost = {UpdateAt::kFirstDevice, UpdateAt::kOwner, UpdateAt::kShards, UpdateAt::kReplicas};

// The devices of one process and their store.
class Devices {
 public:
  Devices(UpdateAt update_at, uint32_t count, std::unique_ptr<Store> servers = nullptr, double group_limit_s = 60,
          const std::string& optimizer = "sgd") {
    for (uint32_t d = 0; d < count; d++) {
      arrays_.push_back(std::make_unique<Arrays>(kPlainShapes, kStatistics));
      views_.push_back(arrays_.back()->view());
    }
    store_ = DeviceStore::create(
                 {.update_at = update_at, .rule = momentum_rule(optimizer), .bucket_begin = kBuckets, .threads = 2},
                 comm::make_shared_memory_group(count, {.wait_limit_s = group_limit_s}), std::move(servers), waits_)
                 .value();
  }
  size_t count() const { return arrays_.size(); }
  Arrays& arrays(size_t device) { return *arrays_[device]; }
  DeviceStore& store() { return *store_; }
  Result<> initialize(const TrainingState& state = {}) { return store_->initialize(views_, state); }

  // The gradients of the kBatch samples from `first` on, divided among the devices.
  void compute(int64_t first) {
    for (size_t d = 0; d < count(); d++) clear_gradients(arrays(d));
    for (int64_t i = 0; i < kBatch; i++) {
      add_gradient(arrays(static_cast<size_t>(i) * count() / kBatch), first + i);
    }
  }
  // The devices pass their buckets on in an order that changes with the step.
  Result<> exchange(uint64_t step) {
    for (size_t b = kBuckets.size(); b-- > 0;) {
      for (size_t d = 0; d < count(); d++) DT_TRY_VOID(store_->gradient_ready({b, (d + step) % count()}, step, kBatch));
    }
    for (size_t b = 0; b < kBuckets.size(); b++) {
      for (size_t d = 0; d < count(); d++) DT_TRY_VOID(store_->wait_for_weights({b, d}));
    }
    return {};
  }
  Result<> train(uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; step++) {
      compute(static_cast<int64_t>(step) * kBatch);
      DT_TRY_VOID(exchange(step));
    }
    return {};
  }

 private:
  Waits waits_;
  std::vector<std::unique_ptr<Arrays>> arrays_;
  std::vector<ParameterView> views_;
  std::unique_ptr<DeviceStore> store_;
};

void require(const Result<>& result) {
  if (!result) FAIL(result.error().text());
}

}  // namespace

// Who updates does not change a single bit, and the result is that of one device with the whole batch.
TEST_CASE("all one-host stores end with the same bits on all devices", "[kvstore][devices]") {
  TrainingState expected_state;
  const std::vector<float> whole = train_alone(1, &expected_state);
  for (const uint32_t count : {2u, 3u, 4u}) {
    std::vector<float> first;
    TrainingState first_state;
    for (const UpdateAt update_at : kOneHost) {
      INFO(count << " devices, update at " << static_cast<int>(update_at));
      Devices devices(update_at, count);
      require(devices.initialize());
      require(devices.train(0, kSteps));
      const TrainingState state = devices.store().state().value();
      const std::vector<float> weights = weights_of(devices.arrays(0));
      for (size_t d = 1; d < count; d++) CHECK(weights_of(devices.arrays(d)) == weights);
      CHECK(relative_difference(weights, whole) <= 1e-5);
      CHECK(state.samples == expected_state.samples);
      CHECK(state.updates == expected_state.updates);
      if (first.empty()) {
        first = weights;
        first_state = state;
      }
      CHECK(weights == first);
      REQUIRE(state.slots.size() == first_state.slots.size());
      for (size_t i = 0; i < state.slots.size(); i++) CHECK(state.slots[i].values == first_state.slots[i].values);
    }
    CHECK(first != whole);  // other sums are rounded differently; otherwise the test would compare nothing
  }
}

// float16 kernels produce gradients of up to 65504.
TEST_CASE("two devices' gradients of 60000 are summed without overflow", "[kvstore][devices]") {
  for (const UpdateAt at : kOneHost) {
    Devices devices(at, 2);
    require(devices.initialize());
    for (size_t d = 0; d < 2; d++) {
      for (size_t k = 0; k < kPlainShapes.size(); k++) fill(devices.arrays(d).gradient(k), 60000);
    }
    require(devices.exchange(0));
    for (size_t d = 0; d < 2; d++) {
      for (size_t k = 0; k < kPlainShapes.size(); k++) {
        CHECK(devices.arrays(d).weight(k)[0] == Approx(-momentum_rule().schedule.base * 120000 / kBatch));
      }
    }
  }
}

// Shards and owners hold only parts of the state: a state saved from one store must start any other. The noise of sgld
// goes by positions in whole arrays.
TEST_CASE("a run continues in another store with the same bits", "[kvstore][devices]") {
  const std::string optimizer = GENERATE("sgd", "sgld");
  const auto make = [&](UpdateAt at) { return Devices(at, 3, nullptr, 60, optimizer); };
  Devices through = make(UpdateAt::kFirstDevice);
  require(through.initialize());
  require(through.train(0, kSteps));
  for (const UpdateAt from : kOneHost) {
    for (const UpdateAt to : kOneHost) {
      Devices begin = make(from);
      require(begin.initialize());
      require(begin.train(0, 7));
      Devices end = make(to);
      for (size_t k = 0; k < kPlainShapes.size(); k++) {
        std::copy(begin.arrays(0).weight(k).begin(), begin.arrays(0).weight(k).end(), end.arrays(0).weight(k).begin());
      }
      require(end.initialize(begin.store().state().value()));
      require(end.train(7, kSteps));
      CHECK(weights_of(end.arrays(2)) == weights_of(through.arrays(0)));
    }
  }
}

TEST_CASE("all devices get the first device's weights and statistics", "[kvstore][devices]") {
  Devices devices(UpdateAt::kShards, 3);
  for (size_t k = 0; k < kPlainShapes.size(); k++) fill(devices.arrays(0).weight(k), 3);
  for (size_t i = 0; i < kStatistics.size(); i++) fill(devices.arrays(0).statistic(i), 5);
  require(devices.initialize());
  for (size_t d = 0; d < 3; d++) {
    for (size_t k = 0; k < kPlainShapes.size(); k++) CHECK(all_equal(devices.arrays(d).weight(k), 3));
    for (size_t i = 0; i < kStatistics.size(); i++) CHECK(all_equal(devices.arrays(d).statistic(i), 5));
  }
}

TEST_CASE("shared statistics are the mean of the devices'", "[kvstore][devices]") {
  Devices devices(UpdateAt::kOwner, 4);
  require(devices.initialize());
  for (size_t d = 0; d < 4; d++) fill(devices.arrays(d).statistic(1), static_cast<float>(d));
  require(devices.store().share_statistics(1));
  for (size_t d = 0; d < 4; d++) CHECK(all_equal(devices.arrays(d).statistic(1), 1.5F));
}

// Two workers with two devices each, and servers behind them.
TEST_CASE("the servers see the devices of a worker as one", "[kvstore][devices]") {
  constexpr uint32_t kWorkers = 2;
  Cluster cluster({.workers = kWorkers,
                   .servers = 2,
                   .parameters = kPlainShapes,
                   .statistics = kStatistics,
                   .bucket_begin = kBuckets,
                   .rule = momentum_rule(),
                   .bigarray_bound = 1000});
  std::vector<std::unique_ptr<Devices>> workers(kWorkers);
  for (uint32_t w = 0; w < kWorkers; w++) {
    workers[w] = std::make_unique<Devices>(UpdateAt::kServers, 2, cluster.release_store(w));
  }
  cluster.on_each([&](uint32_t w) -> Result<> {
    Devices& devices = *workers[w];
    DT_TRY_VOID(devices.initialize());
    for (uint64_t step = 0; step < kSteps; step++) {
      for (size_t d = 0; d < 2; d++) clear_gradients(devices.arrays(d));
      for (int64_t i = 0; i < kBatch / kWorkers; i++) {
        add_gradient(devices.arrays(i == 0 ? 0 : 1), static_cast<int64_t>(step) * kBatch + w * (kBatch / kWorkers) + i);
      }
      for (size_t b = kBuckets.size(); b-- > 0;) {
        for (size_t d = 0; d < 2; d++) DT_TRY_VOID(devices.store().gradient_ready({b, d}, step, kBatch / kWorkers));
      }
      for (size_t b = 0; b < kBuckets.size(); b++) {
        for (size_t d = 0; d < 2; d++) DT_TRY_VOID(devices.store().wait_for_weights({b, d}));
      }
    }
    fill(devices.arrays(1).statistic(0), w == 0 ? 4 : 100);
    return devices.store().share_statistics(1);
  });
  const std::vector<float> weights = weights_of(workers[0]->arrays(0));
  CHECK(relative_difference(weights, train_alone(1)) <= 1e-5);
  for (const auto& worker : workers) {
    for (size_t d = 0; d < 2; d++) {
      CHECK(weights_of(worker->arrays(d)) == weights);
      CHECK(all_equal(worker->arrays(d).statistic(0), 26));  // the workers' mean of their devices' means, 2 and 50
    }
  }
  CHECK(workers[0]->store().state().value().samples == kSteps * kBatch);
  cluster.network().stop();
}

TEST_CASE("a device that does not arrive is an error after the time limit of the group", "[kvstore][devices]") {
  Devices devices(UpdateAt::kReplicas, 3, nullptr, 0.2);
  require(devices.initialize());
  devices.compute(0);
  for (const size_t d : {size_t{0}, size_t{1}}) {
    for (size_t b = kBuckets.size(); b-- > 0;) require(devices.store().gradient_ready({b, d}, 0, kBatch));
  }
  const Result<> result = devices.store().wait_for_weights({0, 0});
  REQUIRE_FALSE(result);
  CHECK(result.error().code == Code::kPeerLost);
}

TEST_CASE("canceling a store of devices ends every wait", "[kvstore][devices]") {
  Devices devices(UpdateAt::kOwner, 2);
  require(devices.initialize());
  devices.compute(0);
  for (size_t b = kBuckets.size(); b-- > 0;) require(devices.store().gradient_ready({b, 1}, 0, kBatch));
  std::thread canceller([&] { devices.store().cancel({Code::kPreempted, "asked to stop", {}}); });
  CHECK(devices.store().wait_for_weights({0, 1}).error().message == "asked to stop");
  canceller.join();
  CHECK(devices.store().gradient_ready({1, 0}, 0, kBatch).error().message == "asked to stop");
  CHECK(devices.store().share_statistics(1).error().message == "asked to stop");
}
