// Optimizers that look at whole arrays, or at several gradients.
#include <cmath>

#include "optim/optimizer.h"
#include "rule_checks.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

Norms norms_of(std::span<const float> w, std::span<const float> g) {
  return {std::sqrt(sum_of_squares(w)), std::sqrt(sum_of_squares(g))};
}

// The weights after updates with these rates and the gradient times 1, 2, 3...
std::vector<float> by_lars(const OptimizerSpec& spec, ParameterKind kind, const std::vector<double>& rates) {
  std::vector<float> w = {0.5F, -1.25F, 2.0F, 0.125F, -0.75F};
  State state(spec, w.size());
  double last = rates[0];
  for (size_t i = 0; i < rates.size(); i++) {
    std::vector<float> g = {1.0F, -2.0F, 0.5F, 4.0F, -0.25F};
    for (float& value : g) value *= static_cast<float>(i + 1);
    update(spec,
           {.learning_rate = rates[i],
            .gradient_scale = 0.25,
            .multipliers = multipliers_of(kind, {}, spec),
            .updates = i + 1,
            .rate_change = rates[i] / last,
            .norms = norms_of(w, g)},
           w, g, state.spans);
    last = rates[i];
  }
  return w;
}

void check_near(const std::vector<float>& seen, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); i++) CHECK(seen[i] == Approx(expected[i]).epsilon(2e-7));
}

}  // namespace

// Expected: what MXNet 1.9.1's LARS makes of the same arrays.
TEST_CASE("lars scales the rate of a weight by its norms and corrects the momentum, as MXNet does", "[optim]") {
  const OptimizerSpec lars = spec_of("lars");
  check_near(by_lars(lars, ParameterKind::kWeight, {0.5, 0.5, 0.05}),
             {0.499133199, -1.24825954, 1.99951839, 0.121584304, -0.749766052});
  for (const ParameterKind kind : {ParameterKind::kBias, ParameterKind::kGamma}) {
    check_near(by_lars(lars, kind, {0.5, 0.5, 0.05}),
               {-0.0576250106, -0.134749979, 1.72118747, -2.10549998, -0.610593736});
  }
  OptimizerSpec other = spec_of("lars", 0);
  other.parameters = {{"eta", 0.1}, {"eps", 0.5}};
  other.clip_gradient = 0.3;
  check_near(by_lars(other, ParameterKind::kWeight, {0.5}),
             {0.4808078408, -1.2264802456, 1.9890868664, 0.1023269296, -0.7447315455});
  OptimizerSpec plain = spec_of("lars");
  plain.parameters = {{"momentum_correction", 0}};
  check_near(by_lars(plain, ParameterKind::kWeight, {0.5, 0.05}),
             {0.4994533956, -1.2489016056, 1.9996900558, 0.1228528470, -0.7498502731});
}

TEST_CASE("lars keeps the rate of an array of zeros, and needs the norms of others", "[optim]") {
  const OptimizerSpec lars{.name = "lars", .momentum = 0, .weight_decay = 0};
  std::vector<float> w = {0, 0};
  const std::vector<float> g = {1, -1};
  update(lars, {.learning_rate = 0.5, .norms = norms_of(w, g)}, w, g, {});
  CHECK(w == std::vector<float>{-0.5, 0.5});
  CHECK_THROWS_AS(update(lars, {.learning_rate = 0.5}, w, g, {}), CheckFailed);
  CHECK(uses_norms(lars));
  CHECK(!uses_norms(spec_of("sgd")));
}

// One gradient of 4 or four of 1, with the rate of the schedule.
TEST_CASE("lbsgd makes one update of the mean of several gradients", "[optim]") {
  const OptimizerSpec lbsgd{.name = "lbsgd", .momentum = 0.5, .weight_decay = 0, .parameters = {{"batch_scale", 4}}};
  std::vector<float> w = {1, -2};
  const std::vector<float> g = {1, -1};
  State state(lbsgd, w.size());
  for (uint64_t i = 1; i <= 8; i++) {
    const std::vector<float> before = w;
    CHECK(applies(lbsgd, i) == (i % 4 == 0));
    update(lbsgd, {.learning_rate = 0.5, .gradient_scale = 0.25, .updates = i}, w, g, state.spans);
    if (i % 4 != 0) CHECK(w == before);
    if (i == 3) CHECK(state.spans[1][0] == 0.75F);
  }
  CHECK(w == std::vector<float>{1 - 0.125F - 0.1875F, -2 + 0.125F + 0.1875F});
  CHECK(state.spans[1][0] == 0);
  CHECK(accumulated_updates(lbsgd) == 4);
  CHECK(accumulated_updates({.name = "sgd"}) == 0);
  CHECK(!uses_norms(lbsgd));
  CHECK(uses_norms({.name = "lbsgd", .parameters = {{"lars", 1}}}));
}

TEST_CASE("a sum of squares does not depend on where a block ends", "[optim]") {
  for (const size_t n : {0, 1, 63, 64, 65, 1000}) {
    const std::vector<float> x = random_values(n, 9);
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    CHECK(sum_of_squares(x) == Approx(sum).epsilon(1e-14));
    std::vector<float> added = random_values(n, 10);
    const std::vector<float> first = added;
    for (size_t i = 0; i < n; i++) added[i] += 0.3F * x[i];
    CHECK(sum_of_squares(first, 0.3F, x) == sum_of_squares(added));
  }
}
