// What `bench kv` exchanges: the arrays, and the server of each slice. All its processes compute the same plan.
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
  std::vector<std::string> names;    // the last is the small key, alone in the last bucket
  std::vector<ParameterKind> kinds;  // with a file of shapes, all are weights
  std::vector<Shape> shapes;
  std::vector<size_t> bucket_begin;
  std::vector<kvstore::Slice> placement;
  kvstore::UpdateRule rule;
  std::vector<uint64_t> incarnations;  // indexed by worker
  int shard_threads = 0;               // threads of each server, as in a training job whose processes share this host

  [[nodiscard]] size_t small_bucket() const { return bucket_begin.size() - 1; }
  [[nodiscard]] size_t arrays() const { return names.size() - 1; }  // without the small key
  [[nodiscard]] uint64_t bytes() const;                             // without the small key
};

// Code::kUsage: no such network or file, or an invalid line in the file.
Result<KvPlan> make_kv_plan(const BenchKvOptions& options);

// One worker's weights (zero at first) and gradients (random, different for each worker).
class KvArrays {
 public:
  KvArrays(const KvPlan& plan, uint32_t worker);
  [[nodiscard]] const ParameterView& view() const { return memory_.view(); }

 private:
  ParameterMemory memory_;
};

// The expected weights: the same updates, computed without servers.
class KvReference {
 public:
  KvReference(const KvPlan& plan, uint32_t workers);
  void update();
  // sum |got - expected| / sum |expected| over all arrays except the small key.
  [[nodiscard]] double error(const ParameterView& got) const;

 private:
  const KvPlan& plan_;
  uint32_t workers_;
  kvstore::Counters counters_;
  std::vector<std::vector<float>> sums_;  // sums of all workers' gradients
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<std::vector<float>>> state_;  // indexed by key and slot
};

}  // namespace dtrain::bench
