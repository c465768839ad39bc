#include "optim/optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/random.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

// The weight after each of three updates: w = 1, gradients 4, -2, 1, gradient scale 1/8, weight decay 0.01, learning
// rate 0.1.
std::vector<double> three_updates(const std::string& rule, double momentum) {
  const OptimizerSpec spec{.name = rule, .momentum = momentum, .weight_decay = 0.01};
  std::vector<float> w = {1};
  std::vector<float> v = {0};
  const std::vector<std::span<float>> state =
      momentum == 0 ? std::vector<std::span<float>>{} : std::vector{std::span(v)};
  std::vector<double> trace;
  for (const float gradient : {4.0F, -2.0F, 1.0F}) {
    const std::vector<float> g = {gradient};
    update(spec, {.learning_rate = 0.1, .gradient_scale = 1.0 / 8}, w, g, state);
    trace.push_back(w[0]);
  }
  return trace;
}

std::vector<float> random_values(size_t n, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

}  // namespace

TEST_CASE("nag follows the documented vectors, and is sgd without momentum", "[optim]") {
  const auto momentum = three_updates("nag", 0.9);
  CHECK(momentum[0] == Approx(0.903100000).epsilon(1e-6));
  CHECK(momentum[1] == Approx(0.907574110).epsilon(1e-6));
  CHECK(momentum[2] == Approx(0.864439208).epsilon(1e-6));
  CHECK(three_updates("nag", 0) == three_updates("sgd", 0));
}

TEST_CASE("sgd follows the documented vectors", "[optim]") {
  const auto plain = three_updates("sgd", 0);
  CHECK(plain[0] == Approx(0.949000000).epsilon(1e-6));
  CHECK(plain[1] == Approx(0.973051000).epsilon(1e-6));
  CHECK(plain[2] == Approx(0.959577949).epsilon(1e-6));
  const auto momentum = three_updates("sgd", 0.9);
  CHECK(momentum[0] == Approx(0.949000000).epsilon(1e-6));
  CHECK(momentum[1] == Approx(0.927151000).epsilon(1e-6));
  CHECK(momentum[2] == Approx(0.894059749).epsilon(1e-6));
}

// The gradient is clipped after scaling and before weight decay is added: 1/8 of 4 is .5, clipped to .25.
TEST_CASE("the gradient is clipped after it is scaled", "[optim]") {
  for (const double momentum : {0.0, 0.9}) {
    const OptimizerSpec spec{.momentum = momentum, .weight_decay = 0.5, .clip_gradient = 0.25};
    std::vector<float> w = {1, 1, 1};
    std::vector<float> v = {0, 0, 0};
    const std::vector<float> g = {4, -4, 1};
    std::vector<std::span<float>> state;
    if (momentum != 0) state = {std::span(v)};
    update(spec, {.learning_rate = 0.125, .gradient_scale = 1.0 / 8}, w, g, state);
    CHECK(w[0] == Approx(1 - 0.125 * (0.25 + 0.5)));
    CHECK(w[1] == Approx(1 - 0.125 * (-0.25 + 0.5)));
    CHECK(w[2] == Approx(1 - 0.125 * (0.125 + 0.5)));
  }
  const OptimizerSpec nag{.name = "nag", .momentum = 0.5, .weight_decay = 0.5, .clip_gradient = 0.25};
  std::vector<float> w = {1, 1};
  std::vector<float> v = {0, 0};
  const std::vector<float> g = {4, -4};
  update(nag, {.learning_rate = 0.125, .gradient_scale = 1.0 / 8}, w, g, std::vector{std::span(v)});
  CHECK(w[0] == Approx(1 - 0.125 * 1.5 * (0.25 + 0.5)));
  CHECK(w[1] == Approx(1 - 0.125 * 1.5 * (-0.25 + 0.5)));
}

TEST_CASE("clipping keeps a gradient that is not a number", "[optim]") {
  const OptimizerSpec spec{.momentum = 0, .clip_gradient = 1};
  std::vector<float> w = {1};
  const std::vector<float> g = {std::numeric_limits<float>::quiet_NaN()};
  update(spec, {.learning_rate = 0.1}, w, g, {});
  CHECK(std::isnan(w[0]));
}

TEST_CASE("multipliers scale the rate and the decay", "[optim]") {
  CHECK(multipliers_of(ParameterKind::kWeight).weight_decay == 1);
  CHECK(multipliers_of(ParameterKind::kGamma).weight_decay == 1);
  CHECK(multipliers_of(ParameterKind::kBeta).weight_decay == 0);
  CHECK(multipliers_of(ParameterKind::kBias).weight_decay == 0);
  CHECK(multipliers_of(ParameterKind::kOther).weight_decay == 0);
  // A network's own rule takes precedence.
  const ParameterRule decays{.learning_rate = {}, .weight_decay = 1, .initial = {}};
  CHECK(multipliers_of(ParameterKind::kBias, decays).weight_decay == 1);
  const ParameterRule fixed{.learning_rate = 0, .weight_decay = 0, .initial = {}};
  CHECK(multipliers_of(ParameterKind::kWeight, fixed).learning_rate == 0);
  CHECK(multipliers_of(ParameterKind::kWeight, {}).learning_rate == 1);

  const OptimizerSpec spec{.momentum = 0, .weight_decay = 0.5};
  std::vector<float> w = {1};
  const std::vector<float> g = {1};
  update(spec, {.learning_rate = 0.5, .multipliers = {.learning_rate = 0.5, .weight_decay = 0}}, w, g, {});
  CHECK(w[0] == 0.75F);
}

TEST_CASE("a parameter with learning rate 0 does not change, under every rule", "[optim]") {
  for (const char* rule : {"sgd", "nag"}) {
    std::vector<float> w = {0.25, 0};
    std::vector<float> v = {0, 0};
    const std::vector<float> g = {3, -1};
    const UpdateStep step{.learning_rate = 0.1, .multipliers = {.learning_rate = 0, .weight_decay = 0}};
    for (int i = 0; i < 3; i++) update({.name = rule}, step, w, g, std::vector{std::span(v)});
    CHECK(w == std::vector<float>{0.25, 0});
  }
}

// Servers hold slices. Updating the parts gives the same bits as updating the whole array, and as a loop that is not
// vectorized.
TEST_CASE("any slice may be updated on its own", "[optim]") {
  const size_t n = 1003;
  const UpdateStep step{.learning_rate = 0.05, .gradient_scale = 1.0 / 96, .multipliers = {}};
  const std::vector<float> g = random_values(n, 2);
  for (const bool nesterov : {false, true}) {
    const OptimizerSpec spec{.name = nesterov ? "nag" : "sgd", .weight_decay = 1e-4};
    std::vector<float> whole = random_values(n, 1);
    std::vector<float> parts = whole;
    std::vector<float> plain = whole;
    std::vector<float> whole_v = random_values(n, 3);
    std::vector<float> parts_v = whole_v;
    std::vector<float> plain_v = whole_v;

    update(spec, step, whole, g, std::vector{std::span(whole_v)});
    for (const auto& [begin, count] : {std::pair<size_t, size_t>{0, 17}, {17, 500}, {517, 486}}) {
      update(spec, step, std::span(parts).subspan(begin, count), std::span(g).subspan(begin, count),
             std::vector{std::span(parts_v).subspan(begin, count)});
    }
    const auto momentum = 0.9F, lr = 0.05F, wd = 1e-4F, scale = static_cast<float>(1.0 / 96);
    for (size_t i = 0; i < n; i++) {
      volatile float gradient = scale * g[i];
      volatile float decay = wd * plain[i];
      volatile float sum = gradient + decay;
      volatile float kept = momentum * plain_v[i];
      if (nesterov) {
        plain_v[i] = kept + sum;
        volatile float ahead = momentum * plain_v[i];
        volatile float way = sum + ahead;
        volatile float down = lr * way;
        plain[i] -= down;
      } else {
        volatile float down = lr * sum;
        plain_v[i] = kept - down;
        plain[i] += plain_v[i];
      }
    }
    CHECK(parts == whole);
    CHECK(parts_v == whole_v);
    CHECK(plain == whole);
    CHECK(plain_v == whole_v);
  }
}

TEST_CASE("an unknown rule is refused with the list", "[optim]") {
  const auto slots = state_slots({.name = "sdg"});
  REQUIRE_FALSE(slots);
  CHECK(slots.error().code == Code::kUsage);
  CHECK_THAT(slots.error().message, Catch::Contains("'sdg'") && Catch::Contains("use sgd or nag"));
  for (const char* rule : {"sgd", "nag"}) {
    CHECK(*state_slots({.name = rule, .momentum = 0.9}) == std::vector<std::string>{"mom"});
    CHECK(state_slots({.name = rule, .momentum = 0})->empty());
  }
}
