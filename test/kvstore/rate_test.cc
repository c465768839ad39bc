// Learning rates that change while a job runs.
#include <limits>

#include "kvstore/cluster.h"
#include "kvstore/conversation.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<float> kUnits(4, 1);

void set_rate(Conversation& talk, uint32_t rank, uint64_t request, const RateChange& change, uint32_t key = 0) {
  talk.control(rank, key, request, SetRate{change});
}

float after_push(Conversation& talk, uint64_t step, uint32_t samples) {
  talk.push(0, 0, step, kUnits, samples);
  return talk.peers[0]->take().values[0];
}

ClusterOptions two_and_two(bool sums_only = false) {
  return {.workers = 2,
          .servers = 2,
          .parameters = {{4}, {300000}, {5}},
          .bucket_begin = {0, 1},
          .rule = plain_rule(1),
          .sums_only = sums_only,
          .bigarray_bound = 1000};
}

// One step of both workers with gradients of 1: every weight grows by the rate factor.
void step(Cluster& cluster, uint64_t number) {
  cluster.on_each([&](uint32_t w) {
    for (size_t key = 0; key < 3; key++) fill(cluster.arrays(w).gradient(key), 1);
    return cluster.step(w, number, 1);
  });
}

void check_weights(Cluster& cluster, float value) {
  for (uint32_t w = 0; w < 2; w++) {
    for (size_t key = 0; key < 3; key++) CHECK(all_equal(cluster.arrays(w).weight(key), value));
  }
}

}  // namespace

TEST_CASE("the rate factor multiplies the schedule's rate", "[kvstore][rate]") {
  UpdateRule rule{.schedule = {.base = 0.3, .factor = 0.1, .step_epochs = {1}}, .samples_per_epoch = 10};
  CHECK(update_step(rule, {}, {.samples = 5}, 5).learning_rate == 0.3);
  CHECK(update_step(rule, {}, {.samples = 5, .rate_factor = 0.25}, 5).learning_rate == 0.3 * 0.25);
  const double late = update_step(rule, {}, {.samples = 10}, 5).learning_rate;
  CHECK(update_step(rule, {}, {.samples = 10, .rate_factor = 0.25}, 5).learning_rate == late * 0.25);
}

TEST_CASE("a server changes the rate from a number of samples on", "[kvstore][rate]") {
  ShardOptions options = options_for(sync::bsp(1));
  std::vector<uint64_t> updates;
  options.on_rate = [&](const RateChange& change, uint64_t update) {
    CHECK(change.factor > 0);
    updates.push_back(update);
  };
  Conversation talk(options);
  talk.assign(0, {0, 0, 0, 0}, {.samples = 6, .updates = 2, .rate_factor = 4});
  CHECK(after_push(talk, 2, 1) == 4);  // 7 samples
  set_rate(talk, 0, 3001, {0.5, 7});
  CHECK(talk.status_of(0) == Status::kOk);
  CHECK(after_push(talk, 3, 2) == 4.25F);  // 9 samples
  set_rate(talk, 0, 4001, {8, 12});
  CHECK(talk.status_of(0) == Status::kOk);
  CHECK(after_push(talk, 4, 1) == 4.75F);  // 10 samples: still the old rate
  CHECK(after_push(talk, 5, 2) == 5);
  set_rate(talk, 0, 3001, {100, 0});  // a repeat from before a connection broke
  CHECK(talk.status_of(0) == Status::kDuplicate);
  CHECK(after_push(talk, 6, 1) == 13);
  CHECK(updates == std::vector<uint64_t>{4, 5});
}

TEST_CASE("a worker sets the rate of a parameter, above 0", "[kvstore][rate]") {
  Conversation talk(2);
  set_rate(talk, 0, 1, {0.5, 0});
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  talk.control(0, 0, 2, AssignValues{{.rate_factor = 0}}, kUnits);
  CHECK(talk.status_of(0) == Status::kRejected);
  talk.assign(0, kUnits);
  talk.assign(2, kUnits);
  set_rate(talk, 1, 10, {0.5, 0});  // if worker 0 is lost
  CHECK(talk.status_of(1) == Status::kOk);
  for (const double factor :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    set_rate(talk, 0, 11, {factor, 0});
    CHECK(talk.status_of(0) == Status::kRejected);
  }
  set_rate(talk, 0, 12, {0.5, 0}, 2);  // a statistic
  CHECK(talk.status_of(0) == Status::kRejected);
}

TEST_CASE("all slices of all servers change the rate at the same update", "[kvstore][rate]") {
  const bool sums_only = GENERATE(false, true);
  Cluster cluster(two_and_two(sums_only));
  cluster.initialize();
  step(cluster, 0);
  check_weights(cluster, 1);
  for (uint32_t w = 0; w < 2; w++) REQUIRE(cluster.store(w).set_rate({0.25, 2}, w == 0));
  step(cluster, 1);
  check_weights(cluster, 1.25F);
  const TrainingState state = cluster.store(0).state().value();
  CHECK(state.rate_factor == 0.25);
  CHECK(state.updates == 2);
}

TEST_CASE("a job that continues has the rate factor of its state", "[kvstore][rate]") {
  const bool sums_only = GENERATE(false, true);
  Cluster cluster(two_and_two(sums_only));
  const TrainingState state{.slots = {}, .samples = 4, .updates = 2, .rate_factor = 0.125};
  cluster.on_each([&](uint32_t w) { return cluster.store(w).initialize({&cluster.arrays(w).view(), 1}, state); });
  step(cluster, 2);
  check_weights(cluster, 0.125F);
  CHECK(cluster.store(0).state().value().rate_factor == 0.125);
}

TEST_CASE("a store without servers changes its rate", "[kvstore][rate]") {
  Waits waits;
  Arrays arrays({{4}, {3}}, {});
  const auto store = DeviceStore::create({.rule = plain_rule(1)}, {}, nullptr, waits).value();
  REQUIRE(store->initialize({&arrays.view(), 1}, {.slots = {}, .samples = 0, .updates = 0, .rate_factor = 2}));
  fill(arrays.gradient(0), 1);
  REQUIRE(store->gradient_ready({0}, 0, 1));
  CHECK(all_equal(arrays.weight(0), 2));
  REQUIRE(store->set_rate({0.5, 1}, true));
  REQUIRE(store->gradient_ready({0}, 1, 1));
  CHECK(all_equal(arrays.weight(0), 2.5F));
  CHECK(store->state().value().rate_factor == 0.5);
}
