// The workers and servers of one job in this process, connected by memory_transport.h.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/memory_transport.h"
#include "kvstore/server/shard.h"
#include "kvstore/wire/faults.h"
#include "kvstore/worker/dist_store.h"
#include "support/catch.h"
#include "tensor/parameter_memory.h"

namespace dtrain::test {

// The arrays of one device, as its executor would own them.
class Arrays {
 public:
  Arrays(const std::vector<Shape>& parameters, const std::vector<Shape>& statistics)
      : memory_(names("p{}_weight", ParameterKind::kWeight, parameters),
                names("s{}_moving_mean", ParameterKind::kOther, statistics)) {}
  [[nodiscard]] const ParameterView& view() const { return memory_.view(); }
  std::span<float> weight(size_t key) { return view().parameters[key].weight; }
  std::span<float> gradient(size_t key) { return view().parameters[key].gradient; }
  std::span<float> statistic(size_t i) { return view().statistics[i].weight; }

 private:
  static std::vector<TensorName> names(const char* format, ParameterKind kind, const std::vector<Shape>& shapes) {
    std::vector<TensorName> names;
    for (const Shape& shape : shapes) names.push_back({fmt::format(fmt::runtime(format), names.size()), kind, shape});
    return names;
  }
  ParameterMemory memory_;
};

inline void fill(std::span<float> values, float value) {
  std::fill(values.begin(), values.end(), value);
}
inline bool all_equal(std::span<const float> values, float value) {
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == value; });
}

struct ClusterOptions {
  uint32_t workers = 1;
  uint32_t late = 0;  // of these, the last ones, which take part from join() on
  uint32_t servers = 1;
  std::vector<Shape> parameters = {};
  std::vector<Shape> statistics = {};
  std::vector<size_t> bucket_begin = {0};
  kvstore::UpdateRule rule = {};
  sync::Policy policy = {};                      // empty: BSP
  std::vector<sync::EventLog*> event_logs = {};  // by server; empty: no event logs
  kvstore::StalenessWeight weight = {};
  bool sums_only = false;
  bool deterministic = false;
  int shard_threads = 0;
  uint64_t bigarray_bound = 1000000;
  NetworkFaults network_faults = {};
  std::function<kvstore::Faults(kvstore::Connection)> faults = nullptr;  // null: no faults
  kvstore::SnapshotOptions snapshots = {};
};

// Plain gradient descent with a rate of -`rate`: w += rate * (sum of gradients / contributed samples).
inline kvstore::UpdateRule plain_rule(double rate) {
  kvstore::UpdateRule rule;
  rule.optimizer.momentum = 0;
  rule.optimizer.weight_decay = 0;
  rule.schedule.base = -rate;
  return rule;
}

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options) : options_(options), present_(options.workers - options.late) {
    std::vector<uint64_t> sizes;
    for (const Shape& shape : options.parameters) {
      sizes.push_back(static_cast<uint64_t>(element_count(shape)));
    }
    for (const Shape& shape : options.statistics) sizes.push_back(static_cast<uint64_t>(element_count(shape)));
    placement_ = place(sizes, options.servers, kvstore::PlacementRule::kBalanced, options.bigarray_bound);
    std::vector<kvstore::ServerEvents*> servers;
    for (uint32_t s = 0; s < options.servers; s++) {
      kvstore::ShardOptions of_shard;
      of_shard.server = s;
      of_shard.placement = placement_;
      of_shard.parameters.resize(options.parameters.size());
      of_shard.rule = options.rule;
      of_shard.sums_only = options.sums_only;
      of_shard.policy = policy();
      of_shard.weight = options.weight;
      if (!options.event_logs.empty()) of_shard.event_log = options.event_logs[s];
      of_shard.deterministic = options.deterministic;
      of_shard.threads = options.shard_threads;
      of_shard.snapshots = options.snapshots;
      shards_.push_back(kvstore::Shard::create(of_shard).value());
      for (uint32_t w = present_; w < options.workers; w++) shards_.back()->leave(w);
      servers.push_back(shards_.back().get());
    }
    network_ = std::make_unique<MemoryNetwork>(servers, options.workers, options.network_faults);
    for (uint32_t w = 0; w < options.workers; w++) add_worker(w);
  }
  ~Cluster() { network_->stop(); }

  kvstore::DistStore& store(size_t worker) { return *stores_[worker]; }
  // For a store in front of it. Destroy it before the cluster and after the network has stopped.
  std::unique_ptr<kvstore::DistStore> release_store(size_t worker) { return std::move(stores_[worker]); }
  Arrays& arrays(size_t worker) { return *arrays_[worker]; }
  kvstore::Shard& shard(size_t server) { return *shards_[server]; }
  MemoryNetwork& network() { return *network_; }
  Waits& waits() { return waits_; }
  kvstore::FaultCounts faults() {
    kvstore::FaultCounts sum;
    for (const auto& faulty : faulty_) {
      sum.messages += faulty->counts().messages;
      sum.lost += faulty->counts().lost;
      sum.doubled += faulty->counts().doubled;
      sum.breaks += faulty->counts().breaks;
    }
    return sum;
  }
  const std::vector<kvstore::Slice>& placement() const { return placement_; }

  // The next late worker takes part from this step on. The others stand still.
  void join(uint64_t step) {
    const uint32_t w = present_++;
    for (const auto& shard : shards_) {
      shard->admit(w, 1000 + w);
      shard->join(w, step);
    }
    const Result<> joined = store(w).take_over({&arrays(w).view(), 1}, {});
    if (!joined) FAIL(joined.error().text());
  }

  // Runs work(worker) in one thread per worker that takes part. All must succeed.
  void on_each(const std::function<Result<>(uint32_t)>& work) {
    std::vector<Result<>> results(present_);
    std::vector<std::thread> threads;
    for (uint32_t w = 0; w < present_; w++) {
      threads.emplace_back([&, w] { results[w] = work(w); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Result<>& result : results) {
      if (!result) FAIL(result.error().text());
    }
  }
  void initialize(const kvstore::TrainingState& state = {}) {
    on_each([&](uint32_t w) {
      return store(w).initialize({&arrays(w).view(), 1}, w == 0 ? state : kvstore::TrainingState{});
    });
  }
  // Passes on the gradients of all buckets, last bucket first, then waits for all weights.
  Result<> step(uint32_t worker, uint64_t step, uint32_t samples) {
    const size_t buckets = options_.bucket_begin.size();
    for (size_t b = buckets; b-- > 0;) DT_TRY_VOID(store(worker).gradient_ready(b, step, samples));
    for (size_t b = 0; b < buckets; b++) DT_TRY_VOID(store(worker).wait_for_weights(b));
    return {};
  }
  kvstore::ShardCounts counts() {
    kvstore::ShardCounts sum;
    for (const auto& shard : shards_) {
      sum.pushes += shard->counts().pushes;
      sum.updates += shard->counts().updates;
      sum.duplicates += shard->counts().duplicates;
      sum.late += shard->counts().late;
      sum.refused += shard->counts().refused;
    }
    return sum;
  }

 private:
  [[nodiscard]] sync::Policy policy() const {
    return options_.policy.group_of.empty() ? sync::bsp(options_.workers) : options_.policy;
  }
  void add_worker(uint32_t w) {
    arrays_.push_back(std::make_unique<Arrays>(options_.parameters, options_.statistics));
    kvstore::DistStoreOptions of_store;
    of_store.rank = w;
    of_store.incarnation = 1000 + w;
    of_store.placement = placement_;
    of_store.bucket_begin = options_.bucket_begin;
    of_store.rule = options_.rule;
    of_store.sums_only = options_.sums_only;
    of_store.skips_steps = policy().backup > 0;
    of_store.workers_differ = !options_.policy.group_of.empty();
    stores_.push_back(kvstore::DistStore::create(of_store, waits_).value());
    if (!options_.faults) return stores_.back()->attach(network_->connect(w, *stores_.back()));
    std::vector<kvstore::Faults> faults;
    for (uint32_t s = 0; s < options_.servers; s++) faults.push_back(options_.faults({w, s}));
    kvstore::DistStore* const store = stores_.back().get();
    faulty_.push_back(std::make_unique<kvstore::FaultyTransport>(
        w, std::move(faults), *store, [store](const Error& error) { store->cancel(error); }));
    stores_.back()->attach(faulty_.back()->wrap(network_->connect(w, *faulty_.back())));
  }

  ClusterOptions options_;
  uint32_t present_;  // the number of workers that take part
  Waits waits_;
  std::vector<kvstore::Slice> placement_;
  std::vector<std::unique_ptr<Arrays>> arrays_;
  std::vector<std::unique_ptr<kvstore::Shard>> shards_;
  std::vector<std::unique_ptr<kvstore::DistStore>> stores_;
  std::vector<std::unique_ptr<kvstore::FaultyTransport>> faulty_;  // by worker, if there are faults
  std::unique_ptr<MemoryNetwork> network_;
};

}  // namespace dtrain::test
