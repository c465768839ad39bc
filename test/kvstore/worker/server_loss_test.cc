// Workers that lose a server in the middle of a step, and continue when another one has its place (ServerLinks).
#include "comm/shared_memory.h"
#include "kvstore/cluster.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

constexpr uint32_t kWorkers = 2, kServers = 2;
const Error kLost = {Code::kPeerLost, "server 1 was lost", {}};

ClusterOptions options_in(const TempDir& dir, const sync::Policy& policy) {
  return {.workers = kWorkers,
          .servers = kServers,
          .parameters = {{60}, {80}},
          .statistics = {{3}, {3}},
          .rule = plain_rule(0.5),
          .policy = policy,
          .bigarray_bound = 10,
          .snapshots = {.every = 4, .directory = dir.path(), .job = "job"}};
}

void require_ok(const Result<>& result) {
  if (!result) FAIL(result.error().text());
}

}  // namespace

TEST_CASE("workers at different steps continue alike when one of their servers has gone back", "[kvstore][servers]") {
  const TempDir dir;
  Cluster cluster(options_in(dir, sync::ssp(kWorkers, 3)));
  cluster.initialize();
  const auto step = [&](uint32_t w, uint64_t number) {
    for (size_t key = 0; key < 2; key++) fill(cluster.arrays(w).gradient(key), 1);
    return cluster.step(w, number, 1);
  };
  for (uint64_t number = 0; number < 4; number++) {
    for (uint32_t w = 0; w < kWorkers; w++) require_ok(step(w, number));
  }
  require_ok(step(1, 4));  // 9 updates
  for (uint32_t s = 0; s < kServers; s++) {
    await([&] { return cluster.shard(s).snapshots()->durable() == std::vector<uint64_t>{0, 1, 2}; });
  }

  for (uint32_t w = 0; w < kWorkers; w++) {
    DistStore& store = cluster.store(w);
    store.break_up(kLost);
    CHECK(store.is_broken());
    const Result<> made = step(w, w == 0 ? 4 : 5);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Code::kPeerLost);
    CHECK(store.set_rate({.factor = 0.5}, true));  // the servers get it below
    store.forget_requests();
    CHECK(store.is_broken());  // no other server is there yet
    store.mend();
    CHECK(store.is_broken());  // there may be requests from before
  }
  REQUIRE(cluster.shard(0).begin_anew());
  REQUIRE(cluster.shard(1).restore(1));
  for (uint32_t w = 0; w < kWorkers; w++) {
    cluster.store(w).forget_requests();
    CHECK_FALSE(cluster.store(w).is_broken());
  }
  fill(cluster.arrays(1).statistic(0), 7);
  const Result<uint64_t> lag = cluster.store(1).align({.group_of = {0, 1}, .leads = {0, 1}});
  REQUIRE(lag);
  CHECK(*lag == 5);
  cluster.on_each([&](uint32_t w) { return cluster.store(w).take_over({&cluster.arrays(w).view(), 1}, {}); });
  CHECK(cluster.store(0).next_step().value() == 9);
  CHECK(cluster.store(1).next_step().value() == 10);
  CHECK(cluster.store(0).samples_applied().value() == 9);
  CHECK(all_equal(cluster.arrays(0).statistic(0), 7));
  const float before = cluster.arrays(0).weight(0)[0];
  require_ok(step(0, 9));
  for (const float weight : cluster.arrays(0).weight(0)) CHECK(weight != 0);
  CHECK(std::abs(cluster.arrays(0).weight(0)[0] - before) == 0.25F);  // half of the rate of before
  require_ok(step(1, 10));
  cluster.on_each([&](uint32_t w) { return cluster.store(w).share_statistics(1); });
  CHECK(all_equal(cluster.arrays(0).statistic(0), cluster.arrays(1).statistic(0)[0]));
}

TEST_CASE("a step of several devices ends when a server is lost, and can be made again", "[kvstore][servers]") {
  const TempDir dir;
  ClusterOptions options = options_in(dir, {});
  options.workers = 1;
  options.statistics = {{3}};
  Cluster cluster(options);
  Arrays first(options.parameters, options.statistics), second(options.parameters, options.statistics);
  const std::vector<ParameterView> views = {first.view(), second.view()};
  Waits waits;
  const auto group = [](const std::vector<uint32_t>&) -> Result<std::vector<std::unique_ptr<comm::Collective>>> {
    return comm::make_shared_memory_group(2, {.wait_limit_s = 60});
  };
  const auto store = DeviceStore::create({.update_at = UpdateAt::kServers, .make_group = group}, group({}).value(),
                                         cluster.release_store(0), waits)
                         .value();
  require_ok(store->initialize(views, {}));
  REQUIRE(store->worker_group() == nullptr);
  ServerLinks& links = *store->server_links();
  const auto step = [&](uint64_t number) -> Result<> {
    for (Arrays* device : {&first, &second}) {
      for (size_t key = 0; key < 2; key++) fill(device->gradient(key), 1);
    }
    for (size_t d = 0; d < 2; d++) DT_TRY_VOID(store->gradient_ready({0, d}, number, 1));
    for (size_t d = 0; d < 2; d++) DT_TRY_VOID(store->wait_for_weights({0, d}));
    return {};
  };
  require_ok(step(0));
  require_ok(store->gradient_ready({0, 0}, 1, 1));  // the other device does not come to the sum
  links.break_up(kLost);
  CHECK(store->wait_for_weights({0, 0}).error().code == Code::kPeerLost);
  CHECK(links.is_broken());
  links.forget_requests();
  CHECK(step(1).error().code == Code::kPeerLost);
  links.mend();
  links.forget_requests();
  CHECK_FALSE(links.is_broken());
  for (uint32_t s = 0; s < kServers; s++) {
    await([&] { return cluster.shard(s).snapshots()->durable() == std::vector<uint64_t>{0}; });
    REQUIRE(cluster.shard(s).restore(0));
  }
  require_ok(links.give_statistics());
  require_ok(store->take_over(views, {}));
  CHECK(store->next_step().value() == 0);
  require_ok(step(0));
  CHECK(all_equal(first.weight(0), first.weight(0)[0]));
  CHECK(std::ranges::equal(first.weight(1), second.weight(1)));
  cluster.network().stop();
}
