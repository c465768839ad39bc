#include "optim/array_optimizer.h"

#include <catch2/catch.hpp>

#include "base/random.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

std::vector<float> random_values(size_t count, uint64_t seed) {
  RandomStream random(seed, Use::kTest, count, 0);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

struct Array {
  std::vector<float> weight, gradient, momentum;
  explicit Array(size_t count)
      : weight(random_values(count, 1)), gradient(random_values(count, 2)), momentum(count, 0.0F) {}
};

}  // namespace

// However an array is divided among threads, and whatever else is in its group.
TEST_CASE("updating arrays together gives the same bits as one by one", "[optim]") {
  const std::vector<size_t> counts = {3, 70'001, 200'000, 1};
  using Kind = ParameterKind;
  const std::vector<Kind> kinds = {Kind::kBias, Kind::kWeight, Kind::kGamma, Kind::kBeta};
  for (const auto& [rule, momentum] : {std::pair{"sgd", 0.0}, {"sgd", 0.9}, {"nag", 0.9}}) {
    const OptimizerSpec spec{.name = rule, .momentum = momentum, .weight_decay = 0.01, .clip_gradient = 0.5};
    std::vector<Array> expected, arrays;
    for (const size_t count : counts) expected.emplace_back(count);
    arrays = expected;
    std::vector<std::vector<LearnedArray>> groups(2);
    for (size_t i = 0; i < counts.size(); i++) {
      groups[i / 2].push_back({multipliers_of(kinds[i]), arrays[i].weight, arrays[i].gradient});
    }
    const auto optimizer = make_host_optimizer(spec, 3).value();
    optimizer->bind(groups);
    for (const double rate : {0.1, 0.05}) {
      for (size_t i = 0; i < counts.size(); i++) {
        const UpdateStep step{.learning_rate = rate, .gradient_scale = 0.25, .multipliers = multipliers_of(kinds[i])};
        const std::span<float> state = expected[i].momentum;
        update(spec, step, expected[i].weight, expected[i].gradient,
               momentum == 0 ? std::span<const std::span<float>>{} : std::span(&state, 1));
      }
      for (const size_t group : {1, 0}) optimizer->update(group, {.learning_rate = rate, .gradient_scale = 0.25});
    }
    for (size_t i = 0; i < counts.size(); i++) {
      CHECK(arrays[i].weight == expected[i].weight);
      if (momentum == 0) continue;
      const std::span<float> state = optimizer->state(i / 2, i % 2, 0);
      CHECK(std::vector<float>(state.begin(), state.end()) == expected[i].momentum);
    }
  }
}

TEST_CASE("an optimizer over arrays with an unknown rule is refused", "[optim]") {
  CHECK(make_host_optimizer({.name = "nonesuch"}, 1).error().code == Code::kUsage);
}
