// Faults between the store and real pipes (V9): what comes of it is what comes of it without.
#include "kvstore/dist/faults.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kvstore/cluster.h"
#include "rpc/data_client.h"
#include "rpc/data_server.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kWorkers = 2, kServers = 2;
constexpr uint64_t kSteps = 6;

Security security() {
  return {.token = "secret", .build_id = "build-1", .tls = {}};
}
uint64_t incarnation(uint32_t worker) {
  return 1000 + worker;
}

// Two chunks and a part of one, sliced over both servers, and a small one.
const std::vector<Shape> kShapes = {{600'000}, {9}};

kvstore::UpdateRule momentum_rule() {
  kvstore::UpdateRule rule;
  rule.schedule.base = 0.05;
  rule.samples_per_epoch = 100;
  return rule;
}

class Server {
 public:
  Server(uint32_t rank, const std::vector<kvstore::Slice>& placement)
      : shard(kvstore::Shard::create({.server = rank,
                                      .placement = placement,
                                      .parameters = {{}, {}},
                                      .rule = momentum_rule(),
                                      .policy = sync::bsp(kWorkers),
                                      .deterministic = true})
                  .value()),
        data(DataServer::start({{}, security()}, Log::silent()).value()) {
    data->serve({incarnation(0), incarnation(1)}, *shard);
  }
  ~Server() { data->close(); }

  std::unique_ptr<kvstore::Shard> shard;
  std::unique_ptr<DataServer> data;
};

// The order of the objects is the order in which they may end.
class Worker {
 public:
  Worker(uint32_t rank, const std::vector<kvstore::Slice>& placement,
         const std::vector<std::unique_ptr<Server>>& servers, const kvstore::Faults& faults)
      : arrays(kShapes, {}),
        store(kvstore::DistStore::create({.rank = rank,
                                          .incarnation = incarnation(rank),
                                          .placement = placement,
                                          .rule = momentum_rule(),
                                          .wait_limit_s = 30},
                                         waits)
                  .value()),
        faulty(std::make_unique<kvstore::FaultyTransport>(rank, std::vector(kServers, faults), *store,
                                                          [this](const Error& error) { store->cancel(error); })),
        rank_(rank) {
    DataClientOptions options;
    for (const auto& server : servers) options.servers.push_back("127.0.0.1:" + std::to_string(server->data->port()));
    options.rank = rank;
    options.incarnation = incarnation(rank);
    options.security = security();
    pipes = DataClient::create(std::move(options), *faulty, waits, Log::silent()).value();
    REQUIRE(pipes->connect(10s).has_value());
    store->attach(faulty->wrap(pipes->pipes()));
  }

  Result<> train() {
    DT_TRY_VOID(store->initialize({&arrays.view(), 1}, {}));
    for (uint64_t step = 0; step < kSteps; step++) {
      RandomStream random(11, Use::kTest, rank_, step);
      for (size_t k = 0; k < kShapes.size(); k++) {
        for (float& g : arrays.gradient(k)) g = static_cast<float>(random.uniform(-1, 1));
      }
      DT_TRY_VOID(store->gradient_ready(0, step, 3 + rank_));
      DT_TRY_VOID(store->weights_wait(0));
    }
    return {};
  }

  Waits waits;
  test::Arrays arrays;
  std::unique_ptr<kvstore::DistStore> store;
  std::unique_ptr<kvstore::FaultyTransport> faulty;
  std::unique_ptr<DataClient> pipes;

 private:
  uint32_t rank_;
};

struct Trained {
  std::vector<float> weights;
  kvstore::FaultCounts faults;
  uint64_t repeats = 0;
};

Trained train(const kvstore::Faults& faults) {
  const std::vector<uint64_t> sizes = {600'000, 9};
  const auto placement = kvstore::place(sizes, kServers, kvstore::PlacementRule::kBalanced, 500'000);
  std::vector<std::unique_ptr<Server>> servers;
  for (uint32_t s = 0; s < kServers; s++) servers.push_back(std::make_unique<Server>(s, placement));
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t w = 0; w < kWorkers; w++) workers.push_back(std::make_unique<Worker>(w, placement, servers, faults));
  std::vector<Result<>> results(kWorkers);
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; w++) threads.emplace_back([&, w] { results[w] = workers[w]->train(); });
  for (std::thread& thread : threads) thread.join();
  for (const Result<>& result : results) {
    if (!result) FAIL(result.error().text());
  }
  Trained trained;
  for (size_t k = 0; k < kShapes.size(); k++) {
    const std::span<const float> weights = workers[0]->arrays.weight(k);
    CHECK(std::ranges::equal(weights, workers[1]->arrays.weight(k)));
    trained.weights.insert(trained.weights.end(), weights.begin(), weights.end());
  }
  for (const auto& server : servers) trained.repeats += server->shard->counts().duplicates;
  for (const auto& worker : workers) {
    const kvstore::FaultCounts counts = worker->faulty->counts();
    trained.faults.messages += counts.messages;
    trained.faults.lost += counts.lost;
    trained.faults.doubled += counts.doubled;
  }
  return trained;
}

}  // namespace

TEST_CASE("weights are the same to the bit with faults and without", "[rpc]") {
  const Trained calm = train({});
  CHECK(calm.faults.messages == 0);
  const Trained disturbed = train({.drop = 0.1, .dup = 0.1, .delay_max = 5ms, .seed = 1});
  CHECK(disturbed.faults.lost > 5);
  CHECK(disturbed.faults.doubled > 5);
  CHECK(disturbed.repeats > 0);
  CHECK(disturbed.weights == calm.weights);
}

}  // namespace dtrain::rpc
