// Workers that join while others train.
#include "kvstore/cluster.h"
#include "kvstore/conversation.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

ClusterOptions two_and_one_late(bool sums_only, const sync::Policy& policy = {}) {
  UpdateRule rule = plain_rule(1);
  if (sums_only) {
    rule.optimizer = optim::parse_optimizer("adam", {}).value();
    rule.schedule.base = 0.01;
  }
  return {.workers = 3,
          .late = 1,
          .servers = 2,
          .parameters = {{4}, {300000}, {5}},
          .statistics = {{3}},
          .bucket_begin = {0, 1},
          .rule = rule,
          .policy = policy,
          .sums_only = sums_only,
          .bigarray_bound = 1000};
}

// Steps of all workers that take part; the gradients differ between workers and steps.
void train(Cluster& cluster, uint64_t first, uint64_t end) {
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = first; step < end; step++) {
      for (size_t key = 0; key < 3; key++) fill(cluster.arrays(w).gradient(key), static_cast<float>(step + w + 1));
      DT_TRY_VOID(cluster.step(w, step, 1));
    }
    return {};
  });
}

void average_ranks(Cluster& cluster) {
  cluster.on_each([&](uint32_t w) {
    fill(cluster.arrays(w).statistic(0), static_cast<float>(w));
    return cluster.store(w).share_statistics(1);
  });
}

void check_equal(Cluster& cluster, uint32_t workers) {
  for (uint32_t w = 1; w < workers; w++) {
    for (size_t key = 0; key < 3; key++) {
      CHECK(std::ranges::equal(cluster.arrays(w).weight(key), cluster.arrays(0).weight(key)));
    }
    CHECK(std::ranges::equal(cluster.arrays(w).statistic(0), cluster.arrays(0).statistic(0)));
  }
}

}  // namespace

TEST_CASE("a worker that joins has the weights, the state and the rounds of the others", "[kvstore][join]") {
  const bool sums_only = GENERATE(false, true);
  INFO("sums_only " << sums_only);
  Cluster cluster(two_and_one_late(sums_only));
  cluster.initialize();
  train(cluster, 0, 4);
  average_ranks(cluster);
  average_ranks(cluster);
  REQUIRE(cluster.store(1).hand_over());  // the leader may be any worker
  cluster.join(4);
  check_equal(cluster, 3);
  CHECK(cluster.store(2).next_step().value() == 4);
  CHECK(all_equal(cluster.arrays(2).statistic(0), 0.5));
  train(cluster, 4, 7);
  check_equal(cluster, 3);
  average_ranks(cluster);
  CHECK(all_equal(cluster.arrays(2).statistic(0), 1));
  if (!sums_only) CHECK(all_equal(cluster.arrays(2).weight(0), (1 + 2 + 3 + 4 + 5 + 6 + 7) + 4 * 0.5F + 3 * 1.0F));
}

TEST_CASE("in a scheme without a bound, a worker joins with its own next step of each slice", "[kvstore][join]") {
  Cluster cluster(two_and_one_late(false, sync::asp(3)));
  cluster.initialize();
  train(cluster, 0, 3);
  cluster.join(5);  // further than the others
  CHECK(cluster.store(2).next_step().value() == 5);
  for (size_t key = 0; key < 3; key++) fill(cluster.arrays(2).gradient(key), 1);
  CHECK(cluster.step(2, 5, 1));
}

// Its rank has pushed the step before it was lost.
TEST_CASE("a slice does not let a worker join with a step that it has completed", "[kvstore][join]") {
  Conversation talk(options_for(sync::asp(2)));
  talk.assign(0, {0, 0, 0, 0});
  for (uint64_t step = 0; step < 3; step++) {
    talk.push(1, 0, step, {1, 1, 1, 1});
    CHECK(talk.status_of(1) == Status::kOk);
  }
  talk.shard->leave(1);
  talk.shard->admit(1, 77);
  talk.shard->join(1, 2);
  CHECK(talk.shard->counts().refused == 0);
  talk.shard->admit(1, 100 + 1);
  talk.push(1, 0, 3, {1, 1, 1, 1});
  CHECK(talk.status_of(1) == Status::kOk);
}
