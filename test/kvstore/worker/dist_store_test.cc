#include "kvstore/worker/dist_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "kvstore/cluster.h"
#include "support/catch.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

// The shapes of MXNet's nightly test: small, sliced (above the bound of 1,000,000), and with an odd size.
const std::vector<Shape> kNightlyShapes = {{2, 3}, {1200, 1200}, {1211, 1211}};
// How many processes share them. Under ThreadSanitizer a pass over such an array is so slow that the hardest case has
// to stand for all.
#ifdef __SANITIZE_THREAD__
const std::vector<uint32_t> kWorkerCounts = {7}, kServerCounts = {3};
#else
const std::vector<uint32_t> kWorkerCounts = {1, 2, 4, 7}, kServerCounts = {1, 2, 3};
#endif

// Draws gradients, pushes them for some steps, and returns worker 0's weights. The gradients depend only on (worker,
// step).
std::vector<float> train_on_noise(Cluster& cluster, uint32_t workers, size_t keys, uint64_t steps) {
  for (size_t k = 0; k < keys; k++) fill(cluster.arrays(0).weight(k), 0.5f);
  cluster.initialize();
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = 0; step < steps; step++) {
      RandomStream random(9, Use::kTest, w, step);
      for (size_t k = 0; k < keys; k++) {
        for (float& g : cluster.arrays(w).gradient(k)) g = static_cast<float>(random.uniform(-1, 1));
      }
      DT_TRY_VOID(cluster.step(w, step, 3 + w));
    }
    return {};
  });
  std::vector<float> weights;
  for (size_t k = 0; k < keys; k++) {
    const std::span<const float> of_key = cluster.arrays(0).weight(k);
    for (uint32_t w = 1; w < workers; w++) {
      const std::span<const float> other = cluster.arrays(w).weight(k);
      CHECK(std::equal(of_key.begin(), of_key.end(), other.begin()));
    }
    weights.insert(weights.end(), of_key.begin(), of_key.end());
  }
  return weights;
}

UpdateRule sgd_rule() {
  UpdateRule rule;
  rule.schedule.base = 0.05;
  rule.samples_per_epoch = 100;
  return rule;
}

}  // namespace

// For w += rate * (sum of gradients), the value after repeat i is exactly (W+1) W rate/2 (i+1) + 1. The update rule
// divides by the contributed samples, one of each worker, so it is given W times the rate.
TEST_CASE("bsp sums the gradients of all workers exactly", "[kvstore]") {
  for (const uint32_t workers : kWorkerCounts) {
    for (const uint32_t servers : kServerCounts) {
      INFO("workers " << workers << " servers " << servers);
      Cluster cluster({.workers = workers,
                       .servers = servers,
                       .parameters = kNightlyShapes,
                       .bucket_begin = {0, 1},
                       .rule = plain_rule(2 * workers)});
      for (size_t k = 0; k < 3; k++) fill(cluster.arrays(0).weight(k), 1);
      cluster.initialize();
      const uint64_t repeats = workers == 7 && servers == 3 ? 7 : 2;
      for (uint64_t i = 0; i < repeats; i++) {
        cluster.on_each([&](uint32_t w) {
          for (size_t k = 0; k < 3; k++) fill(cluster.arrays(w).gradient(k), static_cast<float>(w + 1));
          return cluster.step(w, i, 1);
        });
        const auto expected = static_cast<float>((workers + 1) * workers * (i + 1) + 1);
        for (uint32_t w = 0; w < workers; w++) {
          for (size_t k = 0; k < 3; k++) CHECK(all_equal(cluster.arrays(w).weight(k), expected));
        }
      }
      CHECK(cluster.counts().updates == cluster.placement().size() * repeats);
    }
  }
}

// float16 kernels produce gradients of up to 65504. Servers sum in float32, whether they update or only sum.
TEST_CASE("two workers' gradients of 60000 are summed without overflow", "[kvstore]") {
  for (const bool sums_only : {false, true}) {
    INFO("sums only: " << sums_only);
    Cluster cluster({.workers = 2,
                     .servers = 2,
                     .parameters = kNightlyShapes,
                     .bucket_begin = {0, 1},
                     .rule = plain_rule(2),
                     .sums_only = sums_only});
    cluster.initialize();
    cluster.on_each([&](uint32_t w) {
      for (size_t k = 0; k < 3; k++) fill(cluster.arrays(w).gradient(k), 60000);
      return cluster.step(w, 0, 1);
    });
    for (uint32_t w = 0; w < 2; w++) {
      for (size_t k = 0; k < 3; k++) CHECK(all_equal(cluster.arrays(w).weight(k), 120000));
    }
  }
}

// Each of the 400 keys has its own value.
TEST_CASE("all workers get the initial values of rank 0", "[kvstore]") {
  const std::vector<Shape> shapes(400, Shape{2, 3});
  Cluster cluster({.workers = 4, .servers = 3, .parameters = shapes, .statistics = {{5}}, .rule = plain_rule(1)});
  for (uint32_t w = 0; w < 4; w++) {
    for (size_t k = 0; k < shapes.size(); k++) fill(cluster.arrays(w).weight(k), static_cast<float>(1000 * w + k));
    fill(cluster.arrays(w).statistic(0), static_cast<float>(w + 7));
  }
  cluster.initialize();
  for (uint32_t w = 0; w < 4; w++) {
    for (size_t k = 0; k < shapes.size(); k++) CHECK(all_equal(cluster.arrays(w).weight(k), static_cast<float>(k)));
    CHECK(all_equal(cluster.arrays(w).statistic(0), 7));
  }
}

TEST_CASE("shared statistics are the workers' mean weighted by their samples", "[kvstore]") {
  Cluster cluster({.workers = 3, .servers = 2, .parameters = {{4}}, .statistics = {{5}, {6}}, .rule = plain_rule(1)});
  cluster.initialize();
  for (uint64_t epoch = 0; epoch < 4; epoch++) {
    cluster.on_each([&](uint32_t w) -> Result<> {
      DT_TRY_VOID(cluster.step(w, epoch, 1));
      for (size_t i = 0; i < 2; i++) fill(cluster.arrays(w).statistic(i), static_cast<float>(10 * epoch + 100 * w + i));
      return cluster.store(w).share_statistics(1 + w % 2);
    });
    for (uint32_t w = 0; w < 3; w++) {
      // Weights 1, 2 and 1; the values are 100 apart.
      for (size_t i = 0; i < 2; i++) {
        CHECK(all_equal(cluster.arrays(w).statistic(i), static_cast<float>(10 * epoch + 100 + i)));
      }
    }
  }
}

namespace {

ClusterOptions deterministic_cluster(uint32_t workers) {
  return {.workers = workers,
          .servers = 2,
          .parameters = {{7}, {40, 30}, {5, 200}},
          .bucket_begin = {0, 1},
          .rule = sgd_rule(),
          .deterministic = true,
          .bigarray_bound = 1000};
}

}  // namespace

// Sums of random floats depend on their order. Sums in rank order do not depend on the order of arrival. A bad network
// changes the order of arrival, duplicates messages and breaks links, but the bits stay the same. This also holds if
// the servers only sum and each worker updates by the same rule.
TEST_CASE("a deterministic job has the same bits under network faults", "[kvstore]") {
  const ClusterOptions calm = deterministic_cluster(4);
  Cluster undisturbed(calm);
  const std::vector<float> expected = train_on_noise(undisturbed, 4, 3, 8);
  uint64_t duplicates = 0, breaks = 0, dropped = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    INFO("seed " << seed);
    ClusterOptions options = calm;
    options.network_faults = {.seed = seed, .duplicate_percent = 15, .reorder = true, .breaks = 2};
    options.shard_threads = seed % 2 == 0 ? 2 : 0;
    options.sums_only = seed % 3 == 0;
    Cluster cluster(options);
    CHECK(train_on_noise(cluster, 4, 3, 8) == expected);
    cluster.network().stop();
    CHECK(cluster.counts().pushes == cluster.placement().size() * 4 * 8);
    CHECK(cluster.counts().updates == cluster.placement().size() * 8);
    CHECK(cluster.counts().refused == 0);
    duplicates += cluster.network().duplicates();
    breaks += cluster.network().breaks();
    dropped += cluster.counts().duplicates;
  }
  CHECK(duplicates > 100);
  CHECK(breaks > 100);
  CHECK(dropped > 100);
}

TEST_CASE("messages that are damaged on their way are sent again and change no bit", "[kvstore]") {
  const ClusterOptions calm = deterministic_cluster(3);
  Cluster undisturbed(calm);
  const std::vector<float> expected = train_on_noise(undisturbed, 3, 3, 8);
  uint64_t corrupted = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    INFO("seed " << seed);
    ClusterOptions options = calm;
    options.network_faults = {.seed = seed, .reorder = true, .corrupt_percent = 20};
    options.sums_only = seed % 3 == 0;
    Cluster cluster(options);
    CHECK(train_on_noise(cluster, 3, 3, 8) == expected);
    cluster.network().stop();
    CHECK(cluster.counts().updates == cluster.placement().size() * 8);
    corrupted += cluster.network().corrupted();
    refused += cluster.counts().refused;
  }
  CHECK(corrupted > 1000);
  CHECK(refused > 100);
}

TEST_CASE("a slice that is damaged every time it is sent ends the job with its name", "[kvstore]") {
  Cluster cluster({.parameters = {{4}}, .rule = plain_rule(1), .network_faults = {.corrupt_percent = 100}});
  const Result<> result = cluster.store(0).initialize({&cluster.arrays(0).view(), 1}, {});
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Code::kPeerLost);
  CHECK(result.error().message ==
        "a message for key 0 slice 0 between worker 0 and server 0 was corrupted 10 times in a row");
}

// In order of arrival, too, nothing is lost or added twice. Only the rounding differs, and small integers are not
// rounded.
TEST_CASE("a job in order of arrival is exact under network faults", "[kvstore]") {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    INFO("seed " << seed);
    Cluster cluster({.workers = 3,
                     .servers = 2,
                     .parameters = {{270000}, {9}},  // two slices, the second one small
                     .rule = plain_rule(3),
                     .network_faults = {.seed = seed, .duplicate_percent = 20, .reorder = true, .breaks = 1}});
    cluster.initialize();
    cluster.on_each([&](uint32_t w) -> Result<> {
      for (uint64_t step = 0; step < 3; step++) {
        for (size_t k = 0; k < 2; k++) fill(cluster.arrays(w).gradient(k), static_cast<float>(w + 1));
        DT_TRY_VOID(cluster.step(w, step, 1));
      }
      return {};
    });
    for (size_t k = 0; k < 2; k++) CHECK(all_equal(cluster.arrays(1).weight(k), 18));
  }
}

// One of several connections to a server breaks while the others work. All unanswered requests are sent again, even
// those that had arrived, by another thread than the one that delivers the answers.
TEST_CASE("requests that are sent again at any moment change nothing", "[kvstore]") {
  constexpr uint64_t kSteps = 10;
  constexpr int kTimes = 10;  // per step; without a limit nothing else would get through
  Cluster cluster({.workers = 2,
                   .parameters = {{270000}, {9}},
                   .rule = plain_rule(2),
                   .network_faults = {.seed = 5, .duplicate_percent = 5, .reorder = true, .breaks = 1}});
  cluster.initialize();
  std::atomic<uint64_t> begun = 0;
  std::thread again([&] {
    for (uint64_t step = 0; step < kSteps; step++) {
      dtrain::test::await([&] { return begun > step; });
      for (int i = 0; i < kTimes; i++) cluster.store(1).on_reconnected(0);
    }
  });
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = 0; step < kSteps; step++) {
      for (size_t k = 0; k < 2; k++) fill(cluster.arrays(w).gradient(k), static_cast<float>(w + 1));
      DT_TRY_VOID(cluster.store(w).gradient_ready(0, step, 1));
      if (w == 1) begun = step + 1;
      DT_TRY_VOID(cluster.store(w).wait_for_weights(0));
    }
    return {};
  });
  again.join();
  for (size_t k = 0; k < 2; k++) CHECK(all_equal(cluster.arrays(1).weight(k), 30));
  CHECK(cluster.counts().duplicates > 0);
}

// Momentum, samples and updates of 10 steps in one run, and of 6 and 4 steps with a stop in between.
TEST_CASE("a job resumes from the state that the store returned", "[kvstore]") {
  const bool sums_only = GENERATE(false, true);
  INFO("sums_only " << sums_only);
  const ClusterOptions options{.workers = 2,
                               .servers = 2,
                               .parameters = {{300}, {20, 20}},
                               .rule = sgd_rule(),
                               .sums_only = sums_only,
                               .deterministic = true,
                               .bigarray_bound = 350};
  const auto run = [](Cluster& cluster, uint64_t begin, uint64_t end) {
    cluster.on_each([&](uint32_t w) -> Result<> {
      for (uint64_t step = begin; step < end; step++) {
        RandomStream random(3, Use::kTest, w, step);
        for (size_t k = 0; k < 2; k++) {
          for (float& g : cluster.arrays(w).gradient(k)) g = static_cast<float>(random.normal());
        }
        DT_TRY_VOID(cluster.step(w, step, 10));
      }
      return {};
    });
  };
  Cluster at_once(options);
  at_once.initialize();
  run(at_once, 0, 10);

  Cluster first(options);
  first.initialize();
  run(first, 0, 6);
  const TrainingState state = first.store(0).state().value();
  CHECK(state.updates == 6);
  CHECK(state.samples == 120);
  REQUIRE(state.slots.size() == 2);
  CHECK(state.slots[1].name == "p1_weight:mom");
  CHECK(state.slots[1].shape == Shape{20, 20});

  Cluster second(options);
  for (size_t k = 0; k < 2; k++) {
    const std::span<const float> from = first.arrays(0).weight(k);
    std::copy(from.begin(), from.end(), second.arrays(0).weight(k).begin());
  }
  second.initialize(state);
  run(second, 6, 10);
  for (size_t k = 0; k < 2; k++) {
    const std::span<const float> a = at_once.arrays(1).weight(k), b = second.arrays(1).weight(k);
    CHECK(std::equal(a.begin(), a.end(), b.begin()));
  }
  CHECK(second.store(0).state().value().slots[0].values == at_once.store(0).state().value().slots[0].values);
}

TEST_CASE("a state that does not fit is refused by name", "[kvstore]") {
  Cluster cluster({.parameters = {{4}, {5}}, .rule = sgd_rule()});
  TrainingState state{.slots = {{"p0_weight:mom", {4}, std::vector<float>(4)}}, .samples = 1, .updates = 1};
  Result<> result = cluster.store(0).initialize({&cluster.arrays(0).view(), 1}, state);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Code::kData);
  CHECK(result.error().message.find("p1_weight:mom") != std::string::npos);
  state.slots.push_back({"p1_weight:mom", {4}, std::vector<float>(4)});
  result = cluster.store(0).initialize({&cluster.arrays(0).view(), 1}, state);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().message == "array 'p1_weight:mom' of the optimizer's state has 4 elements instead of 5");
}

TEST_CASE("a wait has a name and ends when it is canceled", "[kvstore]") {
  Cluster patient({.workers = 2, .parameters = {{4}, {5}}, .rule = plain_rule(1)});
  patient.initialize();
  REQUIRE(patient.store(0).gradient_ready(0, 0, 1).has_value());
  Result<> outcome;
  std::thread waiter([&] { outcome = patient.store(0).wait_for_weights(0); });
  dtrain::test::await([&] { return !patient.waits().open().empty(); });
  CHECK(patient.waits().open().at(0).name == "weights: key 0 slice 0 version 1 on server 0 and 1 more");
  patient.store(0).cancel({Code::kPeerLost, "worker 1 was lost", {}});
  patient.store(0).cancel({Code::kPeerLost, "a later one", {}});
  waiter.join();
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().message == "worker 1 was lost");
  CHECK(patient.store(0).times().wait_s > 0);
  CHECK(patient.store(0).gradient_ready(0, 1, 1).error().message == "worker 1 was lost");
}

TEST_CASE("a refused request is an error of the worker with the request and the cause", "[kvstore]") {
  Cluster cluster({.workers = 2, .parameters = {{4}}, .rule = plain_rule(1)});
  cluster.initialize();
  cluster.shard(0).admit(1, 77);  // another process has taken over rank 1
  REQUIRE(cluster.store(1).gradient_ready(0, 0, 1).has_value());
  const Result<> result = cluster.store(1).wait_for_weights(0);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Code::kPeerLost);
  CHECK(result.error().message ==
        "server 0 refused the request for key 0 slice 0 step 0 from worker 1: this process no longer has its rank in "
        "the job");
}

// Many slices, several workers, and several servers with their own threads: for ThreadSanitizer, and to let answers
// overtake each other.
TEST_CASE("concurrent pushes of many threads are all summed", "[kvstore]") {
  const std::vector<Shape> shapes(60, Shape{1000});
  Cluster cluster({.workers = 4,
                   .servers = 2,
                   .parameters = shapes,
                   .bucket_begin = {0, 10, 20, 40},
                   .rule = plain_rule(4),
                   .shard_threads = 2,
                   .bigarray_bound = 500});
  cluster.initialize();
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = 0; step < 20; step++) {
      for (size_t k = 0; k < shapes.size(); k++) fill(cluster.arrays(w).gradient(k), static_cast<float>(w + 1));
      DT_TRY_VOID(cluster.step(w, step, 1));
    }
    return {};
  });
  for (size_t k = 0; k < shapes.size(); k++) CHECK(all_equal(cluster.arrays(3).weight(k), 200));
}
