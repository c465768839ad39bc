// A training without a network, for tests of stores. The gradient is that of the sum over samples of |w - x|^2 / 2,
// where each sample x is drawn from its number.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kvstore/cluster.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"

namespace dtrain::test {

// The largest is several blocks of a sum, and above the bound that divides an array among servers.
inline const std::vector<Shape> kPlainShapes = {{10, 7}, {10}, {120, 125}, {3}};

// Momentum, weight decay, and a schedule that drops in the middle of the run.
inline kvstore::UpdateRule momentum_rule(const std::string& optimizer = "sgd") {
  kvstore::UpdateRule rule;
  rule.optimizer.name = optimizer;
  rule.optimizer.weight_decay = 0.01;
  rule.schedule = {.base = 0.05, .factor = 0.5, .step_epochs = {1, 2}, .every_epochs = 0};
  rule.samples_per_epoch = 60;
  return rule;
}

inline void add_gradient(Arrays& arrays, int64_t sample) {
  for (size_t k = 0; k < kPlainShapes.size(); k++) {
    RandomStream random(4, Use::kTest, static_cast<uint64_t>(sample), k);
    const std::span<const float> w = arrays.weight(k);
    const std::span<float> g = arrays.gradient(k);
    for (size_t i = 0; i < g.size(); i++) g[i] += w[i] - static_cast<float>(random.uniform(-1, 1));
  }
}

inline void clear_gradients(Arrays& arrays) {
  for (size_t k = 0; k < kPlainShapes.size(); k++) fill(arrays.gradient(k), 0);
}

inline std::vector<float> weights_of(Arrays& arrays) {
  std::vector<float> weights;
  for (size_t k = 0; k < kPlainShapes.size(); k++) {
    weights.insert(weights.end(), arrays.weight(k).begin(), arrays.weight(k).end());
  }
  return weights;
}

inline constexpr uint64_t kSteps = 20;
inline constexpr int64_t kBatch = 6;

inline std::unique_ptr<kvstore::Store> lone_store(kvstore::DeviceStoreOptions options, Waits& waits) {
  return kvstore::DeviceStore::create(std::move(options), {}, nullptr, waits).value();
}

// Trains one process with one device for kSteps steps and returns its weights.
inline std::vector<float> train_alone(int threads, kvstore::TrainingState* state = nullptr,
                                      const std::string& optimizer = "sgd") {
  Arrays arrays(kPlainShapes, {});
  Waits waits;
  const auto store = lone_store({.rule = momentum_rule(optimizer), .bucket_begin = {0, 2}, .threads = threads}, waits);
  REQUIRE(store->initialize({&arrays.view(), 1}, {}).has_value());
  for (uint64_t step = 0; step < kSteps; step++) {
    clear_gradients(arrays);
    for (int64_t i = 0; i < kBatch; i++) add_gradient(arrays, static_cast<int64_t>(step) * kBatch + i);
    for (size_t b = 2; b-- > 0;) REQUIRE(store->gradient_ready(b, step, kBatch).has_value());
    for (size_t b = 0; b < 2; b++) REQUIRE(store->wait_for_weights(b).has_value());
  }
  if (state != nullptr) *state = store->state().value();
  return weights_of(arrays);
}

// a - b| / |b|.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); i++) {
    difference += std::pow(a[i] - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace dtrain::test
