// What `bench kv` exchanges: the arrays, and which server holds each slice. All its processes compute the same plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/kv.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire/placement.h"
#include "tensor/parameter_memory.h"

namespace dtrain::bench {

struct KvPlan {
  // Names of the arrays; the last name is that of the small key, which is alone in the last bucket.
  std::vector<std::string> names;
  std::vector<ParameterKind> kinds;  // kind of each array; all are weights if the shapes come from a file
  std::vector<Shape> shapes;
  std::vector<size_t> bucket_begin;
  std::vector<kvstore::Slice> placement;
  kvstore::UpdateRule rule;
  std::vector<uint64_t> incarnations;  // incarnation of each worker, indexed by worker
  // Threads of each server; the same number as in a training job whose processes share this host.
  int shard_threads = 0;

  [[nodiscard]] size_t small_bucket() const { return bucket_begin.size() - 1; }
  [[nodiscard]] size_t arrays() const { return names.size() - 1; }  // number of arrays, without the small key
  [[nodiscard]] uint64_t bytes() const;                             // bytes of all arrays, without the small key
  // Bytes of the weights and of the optimizer's state that a server holds.
  [[nodiscard]] uint64_t bytes_on_server(uint32_t server) const;
};

// Code::kUsage: there is no such network or file, or a line of the file is invalid.
Result<KvPlan> make_kv_plan(const BenchKvOptions& options);

// The weights of one worker (initially zero), and its gradients (random, different for each worker).
class KvArrays {
 public:
  KvArrays(const KvPlan& plan, uint32_t worker);
  [[nodiscard]] const ParameterView& view() const { return memory_.view(); }

 private:
  ParameterMemory memory_;
};

// Computes the expected weights by making the same updates without servers.
class KvReference {
 public:
  KvReference(const KvPlan& plan, uint32_t workers);
  void update();
  // sum |result - expected| / sum |expected| over all arrays except the small key; `got` has the results.
  [[nodiscard]] double error(const ParameterView& got) const;

 private:
  const KvPlan& plan_;
  uint32_t workers_;
  kvstore::Counters counters_;
  std::vector<std::vector<float>> sums_;  // for each array, the sum of all workers' gradients
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<std::vector<float>>> state_;  // optimizer state, indexed by key and slot
};

}  // namespace dtrain::bench
