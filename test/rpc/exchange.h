// The stores of a job's workers and the shards of its servers, all in this process, connected by gRPC over loopback.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/shared_memory.h"
#include "kvstore/cluster.h"
#include "kvstore/worker/device_store.h"
#include "rpc/data_client.h"
#include "rpc/data_server.h"
#include "support/catch.h"

namespace dtrain::rpc::test {

struct ExchangeOptions {
  uint32_t workers = 2, servers = 2;
  uint32_t devices = 1;  // of each worker
  std::vector<Shape> shapes = {};
  kvstore::UpdateRule rule = {};
  uint64_t bigarray_bound = 1'000'000;  // elements; larger arrays, and those of this size, are cut
  kvstore::Faults faults = {};
  // Called by each worker for each server: returns the port where the worker reaches the server at this port.
  std::function<uint16_t(uint16_t)> route = {};
  std::chrono::milliseconds retry_first{100};  // as in DataClientOptions
  uint64_t look_ahead = 512 << 20;             // as in DataServerOptions

  [[nodiscard]] std::vector<kvstore::Slice> placement() const {
    std::vector<uint64_t> sizes;
    for (const Shape& shape : shapes) sizes.push_back(static_cast<uint64_t>(element_count(shape)));
    return kvstore::place(sizes, servers, kvstore::PlacementRule::kBalanced, bigarray_bound);
  }
  [[nodiscard]] std::vector<uint64_t> incarnations() const {
    std::vector<uint64_t> all;
    for (uint32_t w = 0; w < workers; w++) all.push_back(1000 + w);
    return all;
  }
  [[nodiscard]] static Security security() { return {.token = "secret", .build_id = "build-1", .tls = {}}; }
};

class ExchangeServer {
 public:
  ExchangeServer(uint32_t rank, const ExchangeOptions& options)
      : shard(kvstore::Shard::create({.server = rank,
                                      .placement = options.placement(),
                                      .parameters = std::vector<optim::Multipliers>(options.shapes.size()),
                                      .rule = options.rule,
                                      .policy = sync::bsp(options.workers),
                                      .deterministic = true})
                  .value()),
        data(DataServer::start({.listen = {},
                                .security = ExchangeOptions::security(),
                                .look_ahead = options.look_ahead,
                                .streams = 4 * options.workers},
                               waits, Log::silent())
                 .value()) {
    data->serve(options.incarnations(), *shard, nullptr);
  }
  ~ExchangeServer() { data->close(); }

  Waits waits;
  std::unique_ptr<kvstore::Shard> shard;
  std::unique_ptr<DataServer> data;
};

// The members are declared in an order that lets them be destroyed in reverse.
class ExchangeWorker {
 public:
  ExchangeWorker(uint32_t rank, const ExchangeOptions& options,
                 const std::vector<std::unique_ptr<ExchangeServer>>& servers) {
    for (uint32_t d = 0; d < options.devices; d++) {
      arrays.push_back(std::make_unique<dtrain::test::Arrays>(options.shapes, std::vector<Shape>()));
      views.push_back(arrays.back()->view());
    }
    auto dist = kvstore::DistStore::create({.rank = rank,
                                            .incarnation = options.incarnations()[rank],
                                            .placement = options.placement(),
                                            .rule = options.rule},
                                           waits)
                    .value();
    kvstore::DistStore& exchange = *dist;
    store = std::move(dist);
    if (options.devices > 1) {
      store = kvstore::DeviceStore::create({.update_at = kvstore::UpdateAt::kServers, .rule = options.rule},
                                           comm::make_shared_memory_group(options.devices, {.wait_limit_s = 30}),
                                           std::move(store), waits)
                  .value();
    }
    faulty = std::make_unique<kvstore::FaultyTransport>(rank, std::vector(options.servers, options.faults), exchange,
                                                        [&exchange](const Error& error) { exchange.cancel(error); });
    DataClientOptions client;
    for (const auto& server : servers) {
      const uint16_t port = server->data->port();
      client.servers.push_back("127.0.0.1:" + std::to_string(options.route ? options.route(port) : port));
    }
    client.retry_first = options.retry_first;
    client.rank = rank;
    client.incarnation = options.incarnations()[rank];
    client.security = ExchangeOptions::security();
    pipes = DataClient::create(std::move(client), *faulty, waits, Log::silent()).value();
    REQUIRE(pipes->connect(std::chrono::seconds(10)).has_value());
    exchange.attach(faulty->wrap(pipes->pipes()));
  }

  // Does one step of all devices. Their gradients must be set.
  Result<> step(uint64_t number, uint32_t samples) {
    const auto devices = static_cast<uint32_t>(arrays.size());
    for (uint32_t d = 0; d < devices; d++) DT_TRY_VOID(store->gradient_ready({0, d}, number, samples));
    for (uint32_t d = 0; d < devices; d++) DT_TRY_VOID(store->wait_for_weights({0, d}));
    return {};
  }

  Waits waits;
  std::vector<std::unique_ptr<dtrain::test::Arrays>> arrays;  // of each device
  std::vector<ParameterView> views;
  std::unique_ptr<kvstore::Store> store;
  std::unique_ptr<kvstore::FaultyTransport> faulty;
  std::unique_ptr<DataClient> pipes;
};

class Exchange {
 public:
  explicit Exchange(const ExchangeOptions& options) {
    for (uint32_t s = 0; s < options.servers; s++) servers.push_back(std::make_unique<ExchangeServer>(s, options));
    for (uint32_t w = 0; w < options.workers; w++) {
      workers.push_back(std::make_unique<ExchangeWorker>(w, options, servers));
    }
  }

  // Calls work(rank, worker) for each worker on its own thread. Fails the test with the first Error.
  template <class Work>
  void on_each(const Work& work) {
    std::vector<Result<>> results(workers.size());
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < workers.size(); w++) {
      threads.emplace_back([&, w] { results[w] = work(w, *workers[w]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Result<>& result : results) {
      if (!result) FAIL(result.error().text());
    }
  }

  std::vector<std::unique_ptr<ExchangeServer>> servers;
  std::vector<std::unique_ptr<ExchangeWorker>> workers;
};

}  // namespace dtrain::rpc::test
