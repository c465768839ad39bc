#include "optim/array_optimizer.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

std::vector<float> random_array(size_t count, uint64_t seed) {
  RandomStream random(seed, Use::kTest, count, 0);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

struct Array {
  std::vector<float> weight, gradient;
  std::vector<std::vector<float>> slots;
  std::vector<std::span<float>> state;
  Array(const OptimizerSpec& spec, size_t count)
      : weight(random_array(count, 1)),
        gradient(random_array(count, 2)),
        slots(state_slots(spec)->size(), std::vector<float>(count)) {
    for (std::vector<float>& slot : slots) state.emplace_back(slot);
  }
};

double norm_of(std::span<const float> array) {
  double sum = 0;
  for (size_t at = 0; at < array.size(); at += kNormBlock) {
    sum += sum_of_squares(array.subspan(at, std::min(kNormBlock, array.size() - at)));
  }
  return std::sqrt(sum);
}

Norms norms_of(const Array& array, const OptimizerSpec& spec, double scale) {
  const auto accumulated = static_cast<double>(accumulated_updates(spec));
  if (accumulated == 0) return {norm_of(array.weight), norm_of(array.gradient)};
  std::vector<float> sum = array.slots.back();
  for (size_t i = 0; i < sum.size(); i++) sum[i] += static_cast<float>(scale) * array.gradient[i];
  return {norm_of(array.weight), norm_of(sum) / (accumulated * scale)};
}

// Two updates of two groups of arrays, at two rates.
void compare(const OptimizerSpec& spec) {
  const std::vector<size_t> counts = {3, 70'001, 200'000, 1};
  using Kind = ParameterKind;
  const std::vector<Kind> kinds = {Kind::kBias, Kind::kWeight, Kind::kGamma, Kind::kBeta};
  std::vector<std::unique_ptr<Array>> expected, arrays;
  std::vector<std::vector<LearnedArray>> groups(2);
  for (size_t i = 0; i < counts.size(); i++) {
    expected.push_back(std::make_unique<Array>(spec, counts[i]));
    arrays.push_back(std::make_unique<Array>(spec, counts[i]));
    groups[i / 2].push_back({multipliers_of(kinds[i], {}, spec), arrays[i]->weight, arrays[i]->gradient, {i, 7}});
  }
  const auto optimizer = make_host_optimizer(spec, 3).value();
  optimizer->bind(groups);
  UpdateStep step{.gradient_scale = 0.25, .updates = 0};
  for (const double rate : {0.1, 0.05}) {
    step.learning_rate = rate;
    step.updates++;
    for (const size_t group : {1, 0}) optimizer->update(group, step);
    for (size_t i = 0; i < counts.size(); i++) {
      UpdateStep own = step;
      own.multipliers = multipliers_of(kinds[i], {}, spec);
      own.part = {.array = i, .begin = 7};
      own.norms = norms_of(*expected[i], spec, step.gradient_scale);
      update(spec, own, expected[i]->weight, expected[i]->gradient, expected[i]->state);
    }
  }
  for (size_t i = 0; i < counts.size(); i++) {
    CHECK(arrays[i]->weight == expected[i]->weight);
    for (size_t slot = 0; slot < expected[i]->slots.size(); slot++) {
      const std::span<float> state = optimizer->state(i / 2, i % 2, slot);
      CHECK(std::vector<float>(state.begin(), state.end()) == expected[i]->slots[slot]);
    }
  }
}

}  // namespace

// However an array is divided among threads, and whatever else is in its group.
TEST_CASE("updating arrays together gives the same bits as one by one, under every rule", "[optim]") {
  for (const std::string& rule : optimizer_names()) {
    for (const double momentum : {0.0, 0.9}) {
      INFO(rule << ", momentum " << momentum);
      compare({.name = rule, .momentum = momentum, .weight_decay = 0.01, .clip_gradient = 0.5});
    }
  }
  for (const double lars : {0.0, 1.0}) compare({.name = "lbsgd", .parameters = {{"batch_scale", 2}, {"lars", lars}}});
}

TEST_CASE("an optimizer over arrays with an unknown rule is refused", "[optim]") {
  CHECK(make_host_optimizer({.name = "nonesuch"}, 1).error().code == Code::kUsage);
}
