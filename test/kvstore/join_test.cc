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
  REQUIRE(cluster.store(1).hand_over(nullptr));  // the leader may be any worker
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

TEST_CASE("a run goes back: all have the earlier values, state and rounds, and train on with the same bits",
          "[kvstore][join]") {
  const bool sums_only = GENERATE(false, true), from_beginning = GENERATE(false, true);
  INFO("sums_only " << sums_only << " from_beginning " << from_beginning);
  ClusterOptions options = two_and_one_late(true);
  options.late = 0;
  options.sums_only = sums_only;
  options.deterministic = true;
  Cluster cluster(options);
  const auto copy = [&](uint32_t w) {
    std::vector<std::vector<float>> all;
    for (size_t key = 0; key < 3; key++) {
      all.emplace_back(cluster.arrays(w).weight(key).begin(), cluster.arrays(w).weight(key).end());
    }
    all.emplace_back(cluster.arrays(w).statistic(0).begin(), cluster.arrays(w).statistic(0).end());
    return all;
  };
  cluster.initialize();
  const uint64_t begin = from_beginning ? 0 : 3;
  train(cluster, 0, begin);
  if (begin > 0) average_ranks(cluster);
  const auto weights = copy(0);
  const TrainingState state = from_beginning ? TrainingState() : cluster.store(0).state().value();
  train(cluster, begin, 7);
  const auto wanted = copy(0);
  const TrainingState wanted_state = cluster.store(0).state().value();
  for (int i = 0; i < 2; i++) {
    average_ranks(cluster);
    cluster.shard(i).leave(2);
    cluster.shard(i).admit(2, 1002);
    cluster.shard(i).join(2, 7);
  }
  // Not worker 0, which may be the one that was lost.
  for (size_t key = 0; key < 3; key++) std::ranges::copy(weights[key], cluster.arrays(1).weight(key).begin());
  std::ranges::copy(weights[3], cluster.arrays(1).statistic(0).begin());
  REQUIRE(cluster.store(1).hand_over(&state));
  const TrainingState counters{.slots = {}, .samples = state.samples, .updates = state.updates};
  cluster.on_each([&](uint32_t w) { return cluster.store(w).take_over({&cluster.arrays(w).view(), 1}, counters); });
  check_equal(cluster, 3);
  CHECK(copy(2) == weights);
  CHECK(cluster.store(2).next_step().value() == begin);
  train(cluster, begin, 7);
  CHECK(copy(2) == wanted);
  const TrainingState again = cluster.store(0).state().value();
  CHECK(again.samples == wanted_state.samples);
  CHECK(again.updates == 7);
  for (size_t i = 0; i < again.slots.size(); i++) CHECK(again.slots[i].values == wanted_state.slots[i].values);
  average_ranks(cluster);
  check_equal(cluster, 3);
}

TEST_CASE("when a run goes back, a slice forgets a gradient that was added, and lost workers stay absent",
          "[kvstore][join]") {
  Conversation talk(options_for(sync::bsp(3)));
  talk.assign(0, {0, 0, 0, 0});
  for (uint32_t rank = 0; rank < 3; rank++) talk.push(rank, 0, 0, {1, 1, 1, 1});
  for (uint32_t rank = 0; rank < 3; rank++) CHECK(talk.status_of(rank) == Status::kOk);
  talk.push(0, 0, 1, {50, 50, 50, 50});  // before worker 0 is lost, and the others stop
  talk.shard->leave(0);
  talk.shard->leave(2);
  talk.control(1, 0, 1500, AssignValues{{.samples = 8, .updates = 5}}, {7, 7, 7, 7});
  CHECK(talk.status_of(1) == Status::kOk);
  talk.push(1, 0, 5, {2, 2, 2, 2});
  const Peer::Received answer = talk.peers[1]->take();
  CHECK(answer.status == Status::kOk);
  CHECK(answer.values == std::vector<float>(4, 9));
  CHECK(answer.header.step == 6);
  CHECK(answer.header.samples_applied == 9);
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
