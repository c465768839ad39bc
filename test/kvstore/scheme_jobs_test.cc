// What the schemes do in whole jobs in this process.

#include <algorithm>
#include <memory>

#include "base/file.h"
#include "kvstore/cluster.h"
#include "kvstore/plain_training.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

// Each worker takes its steps at its own pace, with gradients of 1. Then all meet and refresh.
void train_apart(Cluster& cluster, uint32_t workers, uint64_t steps) {
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t i = 0; i < steps; i++) {
      for (size_t k = 0; k < 2; k++) fill(cluster.arrays(w).gradient(k), 1);
      DT_TRY(const uint64_t step, cluster.store(w).next_step());
      DT_TRY_VOID(cluster.step(w, step, 1));
    }
    return {};
  });
  cluster.on_each([&](uint32_t w) { return cluster.store(w).refresh(); });
  for (uint32_t w = 0; w < workers; w++) {
    for (size_t k = 0; k < 2; k++) {
      const std::span<const float> newest = cluster.arrays(0).weight(k);
      CHECK(std::equal(newest.begin(), newest.end(), cluster.arrays(w).weight(k).begin()));
    }
  }
}

ClusterOptions apart(const sync::Policy& policy) {
  return {.workers = 4,
          .servers = 2,
          .parameters = {{70}, {40, 30}},
          .bucket_begin = {0, 1},
          .rule = plain_rule(1),
          .policy = policy,
          .bigarray_bound = 1000};
}

}  // namespace

TEST_CASE("asynchronous workers lose no update and end with the same model", "[kvstore][schemes]") {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    INFO("seed " << seed);
    for (const sync::Policy& policy : {sync::asp(4), sync::ssp(4, 1), sync::gsp({0, 0, 1, 1})}) {
      ClusterOptions options = apart(policy);
      options.network_faults = {.seed = seed, .duplicate_percent = 15, .reorder = true, .breaks = 2};
      Cluster cluster(options);
      cluster.initialize();
      train_apart(cluster, 4, 20);
      const bool in_groups = policy.snapshots;
      // Each update adds 1 per member, divided by the members' samples.
      CHECK(all_equal(cluster.arrays(2).weight(1), in_groups ? 40 : 80));
      for (uint32_t w = 0; w < 4; w++) CHECK(cluster.store(w).samples_applied().value() == 80);
      CHECK(cluster.counts().pushes == cluster.placement().size() * 80);
    }
  }
}

// An event log (--trace-events) of a job on a lossy network is replayed with fresh state machines and compared byte for
// byte.
TEST_CASE("the event log of a shard can be replayed", "[kvstore][schemes]") {
  const TempDir dir;
  for (const sync::Policy& policy : {sync::bsp(4), sync::asp(4), sync::ssp(4, 1), sync::gsp({0, 0, 1, 1})}) {
    std::vector<std::unique_ptr<sync::EventLog>> writers;
    ClusterOptions options = apart(policy);
    options.statistics = {{6}};
    options.network_faults = {.seed = 3, .duplicate_percent = 15, .reorder = true, .breaks = 2};
    for (const char* name : {"0", "1"}) {
      writers.push_back(sync::EventLog::create(dir.path(name)).value());
      options.event_logs.push_back(writers.back().get());
    }
    {
      Cluster cluster(options);
      cluster.initialize();
      train_apart(cluster, 4, 10);
      cluster.on_each([&](uint32_t w) { return cluster.store(w).share_statistics(1); });
    }
    uint64_t events = 0;
    for (size_t server = 0; server < 2; server++) {
      REQUIRE(writers[server]->finish().has_value());
      const std::string event_log = read_file(dir.path(std::to_string(server))).value();
      std::string again;
      const sync::Replay replay = sync::replay(event_log, [&](std::string_view piece) { again += piece; }).value();
      CHECK_FALSE(replay.difference);
      CHECK(again == event_log);
      events += replay.events;
    }
    CHECK(events >= 4 * 10 * 2 * 3);  // a push and a pull for each worker, step and slice
  }
}

// It may begin when the others have already ended the epoch.
TEST_CASE("a worker that begins late knows the samples of the rounds before it", "[kvstore][schemes]") {
  ClusterOptions options = apart(sync::bsp(2, 1));
  options.workers = 2;
  Cluster cluster(options);
  REQUIRE(cluster.store(0).initialize({&cluster.arrays(0).view(), 1}, {}));
  for (uint64_t step = 0; step < 3; step++) REQUIRE(cluster.step(0, step, 5));
  REQUIRE(cluster.store(1).initialize({&cluster.arrays(1).view(), 1}, {}));
  CHECK(cluster.store(1).next_step().value() == 3);
  CHECK(cluster.store(1).samples_applied().value() == 15);
}

TEST_CASE("all workers finish with a backup worker under network faults", "[kvstore][schemes]") {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    INFO("seed " << seed);
    ClusterOptions options = apart(sync::bsp(4, 1));
    options.network_faults = {.seed = seed, .duplicate_percent = 15, .reorder = true, .breaks = 2};
    Cluster cluster(options);
    cluster.initialize();
    // Until a number of rounds is over: how many steps a worker takes until then depends on how often it is late.
    cluster.on_each([&](uint32_t w) -> Result<> {
      for (;;) {
        DT_TRY(const uint64_t step, cluster.store(w).next_step());
        if (step >= 20) return {};
        for (size_t k = 0; k < 2; k++) fill(cluster.arrays(w).gradient(k), 1);
        DT_TRY_VOID(cluster.step(w, step, 1));
      }
    });
    cluster.on_each([&](uint32_t w) { return cluster.store(w).refresh(); });
    for (uint32_t w = 0; w < 4; w++) CHECK(all_equal(cluster.arrays(w).weight(1), 20));
    CHECK(cluster.counts().pushes >= cluster.placement().size() * 20 * 3);
  }
}
