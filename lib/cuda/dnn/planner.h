// Provides the executor's plans: takes them from the cache, or chooses new ones and adds them to the cache.
#pragma once

#include <cstdint>

#include "cuda/dnn/convolution.h"
#include "cuda/dnn/plan.h"
#include "cuda/dnn/plan_cache.h"

namespace dtrain::cuda {

// Used by one thread.
class Planner {
 public:
  // cache: may be null; must outlive the planner.
  Planner(Device device, const PlanOptions& options, PlanCache* cache = nullptr)
      : device_(std::move(device)), options_(options), cache_(cache) {}

  // Code::kDevice, naming the operation, if no engine can run it.
  Result<Plan> plan(const ConvolutionPass& pass);

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] int64_t from_cache() const { return from_cache_; }  // plans that needed no heuristics
  [[nodiscard]] int64_t chosen() const { return chosen_; }

 private:
  Device device_;
  PlanOptions options_;
  PlanCache* cache_;
  int64_t from_cache_ = 0, chosen_ = 0;
};

}  // namespace dtrain::cuda
