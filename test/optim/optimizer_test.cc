#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/random.h"
#include "mxnet_vectors.h"
#include "optim/array_optimizer.h"
#include "optim/noise.h"
#include "rule_checks.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::optim;

namespace {

// The noise in the weights of the array 0, which sgld draws for an element in an update.
double noise_of(const OptimizerSpec& spec, double rate, uint64_t update, uint64_t element) {
  const RandomStream key(spec.seed, Use::kUpdateNoise, update, 0);
  return std::sqrt(rate) * static_cast<double>(noise::normal_at(key.key(), element));
}

// The weight after each of three updates: w = 1, gradients 4, -2, 1, gradient scale 1/8, weight decay 0.01.
std::vector<double> three_updates(const std::string& rule, double momentum = 0.9, double rate = 0.1) {
  const OptimizerSpec spec = spec_of(rule, momentum);
  std::vector<float> w = {1};
  State state(spec, 1);
  std::vector<double> trace;
  for (const float gradient : {4.0F, -2.0F, 1.0F}) {
    const std::vector<float> g = {gradient};
    update(spec, {.learning_rate = rate, .gradient_scale = 1.0 / 8, .updates = trace.size() + 1}, w, g, state.spans);
    trace.push_back(w[0]);
  }
  return trace;
}

}  // namespace

TEST_CASE("every optimizer follows the documented vectors", "[optim]") {
  struct Case {
    std::string rule;
    double momentum, rate;
    std::vector<double> weights;
  };
  const std::vector<Case> cases = {
      {"sgd", 0, 0.1, {0.949000000, 0.973051000, 0.959577949}},
      {"sgd", 0.9, 0.1, {0.949000000, 0.927151000, 0.894059749}},
      {"dcasgd", 0.9, 0.1, {0.949000000, 0.927163750, 0.894085326}},
      {"ccsgd", 0.9, 0.1, {0.949000000, 0.927151000, 0.894059749}},
      {"nag", 0.9, 0.1, {0.903100014, 0.907652617, 0.864584565}},
      {"nag@v0.7", 0.9, 0.1, {0.903100000, 0.907574110, 0.864439208}},
      {"signum", 0.9, 0.1, {0.9, 0.8, 0.7}},
      {"adam", 0, 0.001, {0.999000001, 0.998710771, 0.998344447}},
      {"adam@v0.7", 0, 0.001, {0.998996842, 0.998728154, 0.998385709}},
      {"adagrad", 0, 0.1, {0.899000020, 0.942822372, 0.920057764}},
      {"rmsprop", 0, 0.001, {0.996837723, 0.998243111, 0.997437522}},
      {"rmsprop@v0.7", 0, 0.1, {0.542088338, 0.333730874, 0.043279736}},
      {"adadelta", 0, 0.1, {0.980001999, 0.976793979, 0.963380798}},
      {"ftrl", 0, 0.1, {0.299133911, 0.315159377, 0.307216929}},
  };
  for (const Case& c : cases) {
    INFO(c.rule << ", momentum " << c.momentum);
    const std::vector<double> weights = three_updates(c.rule, c.momentum, c.rate);
    for (size_t i = 0; i < weights.size(); i++) CHECK(weights[i] == Approx(c.weights[i]).epsilon(1e-6).margin(2e-7));
  }
  for (const char* rule : {"nag", "nag@v0.7", "ccsgd"}) CHECK(three_updates(rule, 0) == three_updates("sgd", 0));
}

// Six updates of three weights, at a rate that falls in between, with and without clipping.
TEST_CASE("the optimizers that MXNet 1.9.1 has give its weights", "[optim]") {
  for (const test::Vector& vector : test::kVectors) {
    INFO(vector.rule << ", momentum " << vector.momentum << ", clip " << vector.clip);
    const OptimizerSpec spec =
        parse_optimizer(vector.rule,
                        {.momentum = vector.momentum, .weight_decay = test::kVectorDecay, .clip_gradient = vector.clip})
            .value();
    std::vector<float> w(test::kVectorStart.begin(), test::kVectorStart.end()), g(w.size());
    const auto optimizer = make_host_optimizer(spec, 1).value();
    optimizer->bind({{{.weight = w, .gradient = g}}});
    for (size_t i = 0; i < test::kVectorGradients.size(); i++) {
      std::ranges::copy(test::kVectorGradients[i], g.begin());
      const double rate = i < 3 ? vector.rate : vector.rate / 2;
      optimizer->update(0, {.learning_rate = rate, .gradient_scale = test::kVectorScale, .updates = i + 1});
      for (size_t k = 0; k < w.size(); k++) {
        if (spec.name == "sgld") w[k] -= static_cast<float>(noise_of(spec, rate, i + 1, k));
        CHECK(w[k] == Approx(vector.weights[i][k]).epsilon(1e-5).margin(1e-7));
      }
    }
  }
}

TEST_CASE("the noise of sgld is normally distributed and independent", "[optim]") {
  constexpr size_t kCount = 200'000;
  const auto n = static_cast<double>(kCount);
  RandomStream stream(3, Use::kTest);
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, before = 0, largest = 0;
  for (size_t i = 0; i < kCount; i++) {
    const uint64_t bits = RandomStream(stream).next();
    const auto z = static_cast<double>(noise::normal_at(stream.key(), i));
    // The formula with the functions of the library.
    const double u = (static_cast<double>(stream.next() >> 33) + 1) / 2147483648.0;
    const double angle = 2 * std::numbers::pi * static_cast<int32_t>(bits & 0xffffffff) / 4294967296.0;
    REQUIRE(z == Approx(std::sqrt(-2 * std::log(u)) * std::cos(angle)).epsilon(1e-6).margin(1e-9));
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    neighbours += z * before;
    before = z;
    largest = std::max(largest, std::abs(z));
  }
  CHECK(sum / n == Approx(0).margin(3 / std::sqrt(n)));
  CHECK(squares / n == Approx(1).margin(3 * std::sqrt(2 / n)));
  CHECK(fourth / n == Approx(3).margin(3 * std::sqrt(96 / n)));
  CHECK(neighbours / n == Approx(0).margin(3 / std::sqrt(n)));
  CHECK((largest > 4 && largest < 6));
}

// A slice on a server, a part on a device and the piece of a thread begin somewhere within the array.
TEST_CASE("the noise of sgld depends on the element's place in the array, the array, the update and the seed",
          "[optim]") {
  const auto updated = [](uint64_t seed, uint64_t updates, ArrayPart part, size_t count) {
    std::vector<float> w(count, 1);
    const std::vector<float> g(count, 0);
    update({.name = "sgld", .seed = seed}, {.learning_rate = 0.1, .updates = updates, .part = part}, w, g, {});
    return w;
  };
  const std::vector<float> whole = updated(1, 1, {2, 0}, 1000), part = updated(1, 1, {2, 333}, 100);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 333));
  CHECK(updated(1, 1, {2, 0}, 1000) == whole);
  CHECK(updated(2, 1, {2, 0}, 1000) != whole);
  CHECK(updated(1, 2, {2, 0}, 1000) != whole);
  CHECK(updated(1, 1, {3, 0}, 1000) != whole);
}

// The two forms of nag are the same until the rate changes. The old one applies the new rate to the remembered steps.
TEST_CASE("nag remembers steps with the rate that they were made with, nag@v0.7 does not", "[optim]") {
  const auto last_change = [](const char* rule) {
    const OptimizerSpec spec{.name = rule, .weight_decay = 0};
    std::vector<float> w = {0};
    State state(spec, 1);
    const std::vector<float> pull = {1}, none = {0};
    update(spec, {.learning_rate = 0.5}, w, pull, state.spans);
    const float before = w[0];
    update(spec, {.learning_rate = 0.25, .updates = 2}, w, none, state.spans);
    return w[0] - before;
  };
  CHECK(last_change("nag") == Approx(-0.5 * 0.81));
  CHECK(last_change("nag@v0.7") == Approx(-0.25 * 0.81));
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
  for (const std::string& rule : optimizer_names()) {
    INFO(rule);
    std::vector<float> w = {0.25, 0};
    State state(spec_of(rule), w.size());
    const std::vector<float> g = {3, -1};
    for (uint64_t i = 1; i <= 3; i++) {
      const UpdateStep step{.learning_rate = 0.1,
                            .multipliers = {.learning_rate = 0, .weight_decay = 1},
                            .updates = i,
                            .norms = Norms{1, 1}};
      update(spec_of(rule), step, w, g, state.spans);
    }
    CHECK(w == std::vector<float>{0.25, 0});
  }
}

// A schedule may begin or end with the rate 0, and a parameter may have no gradient at all.
TEST_CASE("a rate of 0 and gradients of 0 leave finite weights, under every rule", "[optim]") {
  for (const std::string& rule : optimizer_names()) {
    const OptimizerSpec spec{.name = rule, .weight_decay = 0};
    std::vector<float> w = {0.25, 0.5};
    State state(spec, w.size());
    const std::vector<float> g = {3, 0};
    uint64_t updates = 0;
    for (const double rate : {0.0, 0.1, 0.0, 0.1}) {
      update(spec, {.learning_rate = rate, .updates = ++updates, .norms = Norms{1, 1}}, w, g, state.spans);
      INFO(rule << ", update " << updates);
      CHECK(std::isfinite(w[0]));
      CHECK(std::isfinite(w[1]));
      if (updates == 1 && rule != "adadelta") CHECK(w == std::vector<float>{0.25, 0.5});
    }
    if (rule != "ftrl" && rule != "sgld") CHECK(w[1] == 0.5F);  // they move without a gradient too
  }
}

// Servers and workers may hold any slice of a parameter. The lengths make loops that end within a vector register.
TEST_CASE("slices give the same bits as the whole array, under every rule", "[optim]") {
  const size_t n = 1003;
  for (const std::string& rule : optimizer_names()) {
    OptimizerSpec spec = spec_of(rule);
    spec.clip_gradient = 0.02;
    std::vector<float> whole = random_values(n, 1), parts = whole;
    State whole_state(spec, n), parts_state(spec, n);
    for (uint64_t i = 1; i <= 3; i++) {
      const UpdateStep step{.learning_rate = 0.05,
                            .gradient_scale = 1.0 / 96,
                            .updates = i,
                            .norms = Norms{30, 2.0 * static_cast<double>(i)}};
      const std::vector<float> g = random_values(n, 1 + i);
      update(spec, step, whole, g, whole_state.spans);
      for (const auto& [begin, count] : {std::pair<size_t, size_t>{0, 17}, {17, 500}, {517, 486}}) {
        std::vector<std::span<float>> slots;
        for (const std::span<float> slot : parts_state.spans) slots.push_back(slot.subspan(begin, count));
        UpdateStep of_slice = step;
        of_slice.part.begin = begin;
        update(spec, of_slice, std::span(parts).subspan(begin, count), std::span(g).subspan(begin, count), slots);
      }
    }
    INFO(rule);
    CHECK(parts == whole);
    CHECK(parts_state.slots == whole_state.slots);
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
        volatile float down = lr * sum;
        volatile float moved = kept - down;
        volatile float back = plain[i] - kept;
        volatile float ahead = (momentum + 1) * moved;
        plain[i] = back + ahead;
        volatile float new_decay = wd * plain[i];
        volatile float new_sum = gradient + new_decay;
        volatile float new_down = lr * new_sum;
        plain_v[i] = kept - new_down;
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
  CHECK_THAT(slots.error().message, Catch::Contains("'sdg'") && Catch::Contains("use sgd, ccsgd, nag, nag@v0.7,"));
}

// The names are those of the arrays in a checkpoint's .states.
TEST_CASE("every rule names the arrays of its state", "[optim]") {
  using Names = std::vector<std::string>;
  for (const char* rule : {"sgd", "ccsgd", "nag", "nag@v0.7", "signum", "lars"}) {
    CHECK(*state_slots({.name = rule, .momentum = 0.9}) == Names{"mom"});
    CHECK(state_slots({.name = rule, .momentum = 0})->empty());
    CHECK(takes_momentum({.name = rule}));
  }
  const std::vector<std::pair<std::string, Names>> others = {
      {"sgld", {}},
      {"adam", {"mean", "var"}},
      {"adam@v0.7", {"mean", "var"}},
      {"adamax", {"mean", "max"}},
      {"adagrad", {"sum_sq"}},
      {"rmsprop", {"n"}},
      {"rmsprop@v0.7", {"n", "g", "delta"}},
      {"adadelta", {"acc_g", "acc_delta"}},
      {"ftrl", {"z", "n"}},
  };
  for (const auto& [rule, names] : others) {
    for (const double momentum : {0.0, 0.9}) CHECK(*state_slots({.name = rule, .momentum = momentum}) == names);
    CHECK_FALSE(takes_momentum({.name = rule}));
  }
  CHECK(optimizer_names().size() == others.size() + 8);
  for (const double momentum : {0.0, 0.9}) {
    CHECK(*state_slots({.name = "dcasgd", .momentum = momentum}) == Names{"mom", "delta"});
    CHECK(*state_slots({.name = "lbsgd", .momentum = momentum}) == Names{"mom", "sum"});
  }
  CHECK(*state_slots({.name = "rmsprop", .parameters = {{"centered", 1}}}) == Names{"n", "g", "delta"});
}

TEST_CASE("an optimizer's parameters are read from its text", "[optim]") {
  const OptimizerSpec spec = *parse_optimizer("adam(beta2=0.99,epsilon=1e-6)", {.weight_decay = 0.5});
  CHECK(spec.name == "adam");
  CHECK(spec.weight_decay == 0.5);
  CHECK(spec.parameters == std::map<std::string, double>{{"beta2", 0.99}, {"epsilon", 1e-6}});
  CHECK(parse_optimizer("sgd")->parameters.empty());
  CHECK(parse_optimizer("adam()")->parameters.empty());
  const auto refusal = [](const char* text) {
    const auto wrong = parse_optimizer(text);
    INFO(text);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == Code::kUsage);
    return wrong.error().message;
  };
  CHECK_THAT(refusal("adma(beta1=0.9)"), Catch::Contains("use sgd, ccsgd,"));
  CHECK_THAT(refusal("adam(beta=0.9)"), Catch::Contains("it has beta1, beta2, epsilon"));
  CHECK_THAT(refusal("sgd(beta1=0.9)"), Catch::Contains("it has none"));
  for (const char* text : {"adam(beta1)", "adam(beta1=)", "adam(beta1=x)", "adam(beta1=nan)"}) {
    CHECK_THAT(refusal(text), Catch::Contains("needs a number"));
  }
  for (const char* text : {"adam(", "adam(beta1=0.9"}) CHECK_THAT(refusal(text), Catch::Contains("must have the form"));
}

// The documented example: the second gradient is compensated by the last change of the weight.
TEST_CASE("dcasgd adds the product of the squared gradient and the last change", "[optim]") {
  const OptimizerSpec spec{.name = "dcasgd", .momentum = 0.5, .weight_decay = 0, .parameters = {{"lamda", 2}}};
  std::vector<float> w = {1};
  State state(spec, 1);
  const std::vector<float> first = {1}, second = {2};
  update(spec, {.learning_rate = 0.5}, w, first, state.spans);
  CHECK(w[0] == 0.5F);  // v = -0.5
  update(spec, {.learning_rate = 0.5, .updates = 2}, w, second, state.spans);
  CHECK(w[0] == 1.25F);  // v = 0.5 * -0.5 - 0.5 * (2 + 2 * 4 * -0.5) = 0.75
}
