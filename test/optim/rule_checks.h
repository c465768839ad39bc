// What the tests of the rules of optimizers share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "optim/optimizer.h"

namespace dtrain::optim {

// The state of n elements under a rule, all 0.
struct State {
  std::vector<std::vector<float>> slots;
  std::vector<std::span<float>> spans;
  State(const OptimizerSpec& spec, size_t n) : slots(state_slots(spec)->size(), std::vector<float>(n)) {
    for (std::vector<float>& slot : slots) spans.emplace_back(slot);
  }
};

inline OptimizerSpec spec_of(const std::string& rule, double momentum = 0.9) {
  return {.name = rule, .momentum = momentum, .weight_decay = 0.01};
}

inline std::vector<float> random_values(size_t n, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

}  // namespace dtrain::optim
