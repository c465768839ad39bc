// Steps that a worker leaves out because its gradient is not finite, and sums of gradients that are not finite: what
// servers and workers do with them.
#include <algorithm>
#include <limits>
#include <memory>

#include "comm/shared_memory.h"
#include "kvstore/cluster.h"
#include "kvstore/conversation.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<float> kZeros(4, 0);
const std::vector<float> kEachOne(4, 1);
constexpr float kMax = std::numeric_limits<float>::max();

// Every update moves the weights, even one with a gradient of zeros.
UpdateRule restless_rule() {
  UpdateRule rule = plain_rule(0.25);
  rule.optimizer.momentum = 0.5;
  rule.optimizer.weight_decay = 0.5;
  return rule;
}

ShardOptions restless_options(const sync::Policy& policy) {
  ShardOptions options = options_for(policy);
  options.rule = restless_rule();
  return options;
}

std::vector<float> momentum_of(Conversation& talk) {
  talk.control(0, 0, 7, PullState{0});
  return talk.peers[0]->take().values;
}

}  // namespace

TEST_CASE("a round in which a worker leaves the step out changes nothing", "[kvstore][left-out]") {
  for (const bool deterministic : {false, true}) {
    for (const std::vector<uint32_t>& absent : {std::vector<uint32_t>{1}, std::vector<uint32_t>{0, 1}}) {
      INFO("deterministic " << deterministic << ", " << absent.size() << " leave the step out");
      ShardOptions options = restless_options(sync::bsp(2));
      options.deterministic = deterministic;
      Conversation talk(options);
      talk.assign(0, kEachOne);
      for (uint32_t w = 0; w < 2; w++) talk.push(w, 0, 0, kEachOne);
      const Peer::Received before = talk.peers[0]->take();
      (void)talk.peers[1]->take();
      const std::vector<float> momentum = momentum_of(talk);
      CHECK(momentum != kZeros);
      CHECK(before.header.samples == 2);

      if (absent.size() == 1) talk.push(0, 0, 1, kEachOne);
      for (const uint32_t w : absent) talk.push(w, 0, 1, kZeros, 0);
      for (const auto& peer : talk.peers) {
        const Peer::Received after = peer->take();
        CHECK(after.status == Status::kOk);
        CHECK(after.values == before.values);
        CHECK(after.header.step == 2);
        CHECK(after.header.samples == 0);
        CHECK(after.header.samples_applied == 2);
      }
      CHECK(momentum_of(talk) == momentum);
      CHECK(talk.shard->counts().updates == 1);
      CHECK(talk.shard->counts().left_out == 1);
      CHECK(talk.shard->counts().refused == 0);

      // The next round is an ordinary one, with nothing of the last.
      for (uint32_t w = 0; w < 2; w++) talk.push(w, 0, 2, kEachOne);
      Conversation plain(options);
      plain.assign(0, kEachOne);
      for (uint64_t step = 0; step < 2; step++) {
        for (uint32_t w = 0; w < 2; w++) plain.push(w, 0, step, kEachOne);
      }
      (void)plain.peers[0]->take();
      CHECK(talk.peers[0]->take().values == plain.peers[0]->take().values);
    }
  }
}

// The answers come from two servers, and the second array has two slices.
TEST_CASE("all workers leave out the same step on all servers", "[kvstore][left-out]") {
  for (const bool sums_only : {false, true}) {
    INFO("sums only: " << sums_only);
    const auto train = [&](Cluster& cluster, std::optional<uint64_t> absent_in) {
      for (size_t k = 0; k < 3; k++) fill(cluster.arrays(0).weight(k), 1);
      cluster.initialize();
      cluster.on_each([&](uint32_t w) -> Result<> {
        for (uint64_t step = 0; step < (absent_in ? 4 : 3); step++) {
          const bool is_absent = w == 1 && step == absent_in;
          for (size_t k = 0; k < 3; k++) fill(cluster.arrays(w).gradient(k), is_absent ? 0 : 1);
          DT_TRY_VOID(cluster.step(w, step, is_absent ? 0 : 2));
        }
        return {};
      });
    };
    const ClusterOptions options{.workers = 3,
                                 .servers = 2,
                                 .parameters = {{6}, {300'000}, {9}},
                                 .bucket_begin = {0, 1},
                                 .rule = restless_rule(),
                                 .sums_only = sums_only};
    Cluster plain(options), cluster(options);
    train(plain, std::nullopt);
    train(cluster, 2);
    for (uint32_t w = 0; w < 3; w++) {
      for (size_t k = 0; k < 3; k++) {
        CHECK(std::ranges::equal(cluster.arrays(w).weight(k), plain.arrays(0).weight(k)));
      }
    }
    CHECK(cluster.shard(0).counts().left_out + cluster.shard(1).counts().left_out == cluster.placement().size());
    const TrainingState state = cluster.store(0).state().value();
    CHECK(state.samples == plain.store(0).state().value().samples);
    CHECK(state.updates == 4);
    CHECK(state.slots[1].values == plain.store(0).state().value().slots[1].values);
  }
}

TEST_CASE("a worker that leaves its step out does so only for its own group", "[kvstore][left-out]") {
  Conversation asp(restless_options(sync::asp(2)));
  asp.assign(0, kEachOne);
  asp.push(0, 0, 0, kEachOne);
  const std::vector<float> weights = asp.peers[0]->take().values;
  asp.push(1, 0, 0, kZeros, 0);
  const Peer::Received own = asp.peers[1]->take();
  CHECK(own.values == weights);
  CHECK(own.header.samples == 0);
  CHECK(own.header.samples_applied == 1);
  asp.push(0, 0, 1, kEachOne);
  CHECK(asp.peers[0]->take().header.samples_applied == 2);

  Conversation gsp(restless_options(sync::gsp({0, 0, 1})));
  gsp.assign(0, kEachOne);
  gsp.push(0, 0, 0, kEachOne);
  gsp.push(2, 0, 0, kEachOne);
  const std::vector<float> of_other = gsp.peers[2]->take().values;
  gsp.push(1, 0, 0, kZeros, 0);
  for (const uint32_t w : {0, 1}) CHECK(gsp.peers[w]->take().values == of_other);
  CHECK(gsp.shard->counts().updates == 1);
  CHECK(gsp.shard->counts().left_out == 1);
}

// Slices of one step may have the gradients of different workers here.
TEST_CASE("with backup workers the others' gradients count", "[kvstore][left-out]") {
  Conversation talk(options_for(sync::bsp(3, 1)));
  talk.assign(0, kEachOne);
  talk.push(0, 0, 0, kEachOne);
  talk.push(1, 0, 0, kZeros, 0);
  const Peer::Received answer = talk.peers[0]->take();
  CHECK(answer.values == std::vector<float>(4, 2));
  CHECK(answer.header.samples == 1);
  talk.push(0, 0, 1, kZeros, 0);
  talk.push(1, 0, 1, kZeros, 0);
  CHECK(talk.peers[0]->take().values == std::vector<float>(4, 2));
  CHECK(talk.shard->counts().updates == 1);
  CHECK(talk.shard->counts().left_out == 1);
}

TEST_CASE("a sum of gradients that is not finite is refused and counted", "[kvstore][left-out]") {
  struct Case {
    std::string name;
    float of_0, of_1;
    uint32_t culprit;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Case> cases = {{"infinite", 1, inf, 1},
                                   {"NaN", std::numeric_limits<float>::quiet_NaN(), 1, 0},
                                   {"an overflow", kMax, kMax, 1},
                                   {"infinities that cancel", inf, -inf, 0}};
  for (const Case& c : cases) {
    for (const bool deterministic : {false, true}) {
      INFO(c.name << ", deterministic " << deterministic);
      ShardOptions options = restless_options(sync::bsp(2));
      options.deterministic = deterministic;
      std::vector<uint32_t> reported;
      options.on_not_finite = [&](const Slice& slice, uint32_t rank) {
        CHECK(slice.key == 0);
        reported.push_back(rank);
      };
      Conversation talk(options);
      talk.assign(0, kEachOne);
      for (uint32_t w = 0; w < 2; w++) talk.push(w, 0, 0, kEachOne);
      for (uint32_t w = 0; w < 2; w++) CHECK(talk.status_of(w) == Status::kOk);
      const std::vector<float> momentum = momentum_of(talk);
      talk.push(0, 0, 1, {1, 1, c.of_0, 1});
      talk.push(1, 0, 1, {1, 1, c.of_1, 1});
      for (const auto& peer : talk.peers) {
        const Peer::Received answer = peer->take();
        CHECK(answer.status == Status::kNonFinite);
        CHECK(answer.values.empty());
      }
      CHECK(reported == std::vector<uint32_t>{c.culprit});
      CHECK(momentum_of(talk) == momentum);
      CHECK(talk.shard->counts().updates == 1);
      CHECK(talk.shard->counts().not_finite == 1);
      CHECK(talk.shard->counts().refused == 2);
    }
  }
}

TEST_CASE("a sum that only passes the servers is refused too, and the workers name key, step and rank",
          "[kvstore][left-out]") {
  for (const bool sums_only : {false, true}) {
    INFO("sums only: " << sums_only);
    Cluster cluster({.workers = 2, .parameters = {{4}, {4}}, .rule = plain_rule(1), .sums_only = sums_only});
    cluster.initialize();
    std::vector<std::string> errors(2);
    cluster.on_each([&](uint32_t w) -> Result<> {
      cluster.arrays(w).gradient(1)[3] = kMax;
      const Result<> result = cluster.step(w, 0, 1);
      if (!result) errors[w] = result.error().message;
      return {};
    });
    for (uint32_t w = 0; w < 2; w++) {
      CHECK(errors[w] == fmt::format("server 0 refused the request for key 1 slice 0 step 0 from worker {}: the sum of "
                                     "the gradients is not finite",
                                     w));
      CHECK(all_equal(cluster.arrays(w).weight(1), 0));
    }
  }
}

namespace {

// One of several processes of one device each, without servers.
struct Replica {
  explicit Replica(std::unique_ptr<comm::Collective> end) {
    std::vector<std::unique_ptr<comm::Collective>> group;
    group.push_back(std::move(end));
    store = DeviceStore::create({.update_at = UpdateAt::kReplicas, .rule = restless_rule(), .bucket_begin = {0, 1}},
                                std::move(group), nullptr, waits)
                .value();
  }
  Result<> train(uint64_t steps, std::optional<uint64_t> absent_in) {
    for (size_t k = 0; k < 2; k++) fill(arrays.weight(k), 1);
    DT_TRY_VOID(store->initialize({&arrays.view(), 1}, {}));
    for (uint64_t step = 0; step < steps; step++) {
      const bool is_absent = step == absent_in;
      for (size_t k = 0; k < 2; k++) fill(arrays.gradient(k), is_absent ? 0 : 1);
      for (size_t b = 2; b-- > 0;) DT_TRY_VOID(store->gradient_ready(b, step, is_absent ? 0 : 4));
      for (size_t b = 0; b < 2; b++) DT_TRY_VOID(store->wait_for_weights(b));
    }
    return {};
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values;
    for (const ParameterSpan& p : arrays.view().parameters) {
      values.insert(values.end(), p.weight.begin(), p.weight.end());
    }
    const TrainingState state = store->state().value();
    for (const NamedArray& slot : state.slots) {
      values.insert(values.end(), slot.values.begin(), slot.values.end());
    }
    return values;
  }

  Waits waits;
  Arrays arrays{{{4}, {3}}, {}};
  std::unique_ptr<DeviceStore> store;
};

}  // namespace

// Worker 1 leaves out the second of three steps. An update with a sum of 0 samples would divide by 0.
TEST_CASE("workers without servers leave out a step together", "[kvstore][left-out]") {
  const auto train = [](uint64_t steps, std::optional<uint64_t> absent_in) {
    std::vector<std::unique_ptr<Replica>> replicas;
    for (auto& end : comm::make_shared_memory_group(2, {}))
      replicas.push_back(std::make_unique<Replica>(std::move(end)));
    Result<> of_0;
    std::thread other([&] { of_0 = replicas[0]->train(steps, std::nullopt); });
    const Result<> of_1 = replicas[1]->train(steps, absent_in);
    other.join();
    REQUIRE(of_0);
    REQUIRE(of_1);
    for (const auto& replica : replicas) {
      const TrainingState state = replica->store->state().value();
      CHECK(state.samples == 2 * 8);
      CHECK(state.updates == steps);
      CHECK(replica->values() == replicas[0]->values());
    }
    return replicas[0]->values();
  };
  CHECK(train(3, 1) == train(2, std::nullopt));
}
