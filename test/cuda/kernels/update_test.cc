#include "cuda/kernels/update.h"

#include <cmath>
#include <map>

#include "cuda/kernels/norms.h"
#include "optim/array_optimizer.h"
#include "optim/rules.h"
#include "support.h"

namespace dtrain::cuda::test {

namespace {

constexpr int64_t kNormBlock = optim::kNormBlock;

// Tensors with lengths, types and alignments as different as those of a network.
struct Parameter {
  int64_t count;
  Type gradient, copy;
  bool has_copy;
  int64_t skew;
  ParameterKind kind;
};
constexpr Parameter kParameters[] = {
    {1, Type::kFloat32, Type::kFloat16, true, 0, ParameterKind::kBias},
    {3, Type::kFloat16, Type::kFloat16, true, 0, ParameterKind::kWeight},
    {64, Type::kFloat32, Type::kFloat32, false, 0, ParameterKind::kGamma},
    {1000, Type::kFloat16, Type::kFloat16, true, 1, ParameterKind::kWeight},
    {9408, Type::kBfloat16, Type::kBfloat16, true, 0, ParameterKind::kWeight},
    {kChunkElements + 7, Type::kFloat16, Type::kFloat16, true, 0, ParameterKind::kWeight},
    {5 * kChunkElements, Type::kFloat32, Type::kFloat32, true, 0, ParameterKind::kWeight},
};
constexpr size_t kCount = std::size(kParameters);
using optim::kSlotsMax;
constexpr uint64_t kBegin = 5;  // all tensors are parts of arrays, from this element on

// One tensor learns at a third of the rate, and one does not learn.
optim::Multipliers multipliers_of(const Parameter& p, const optim::OptimizerSpec& spec) {
  optim::Multipliers multipliers = optim::multipliers_of(p.kind, {}, spec);
  if (p.count == 1000) multipliers.learning_rate = 1.0 / 3;
  if (p.count == 64) multipliers.learning_rate = 0;
  return multipliers;
}

Rule rule_of(const optim::OptimizerSpec& spec) {
  static const std::map<std::string_view, Rule> rules = {{"sgd", Rule::kSgd},
                                                         {"ccsgd", Rule::kSgd},
                                                         {"lars", Rule::kSgd},
                                                         {"nag", Rule::kNag},
                                                         {"nag@v0.7", Rule::kOldNag},
                                                         {"sgld", Rule::kSgld},
                                                         {"signum", Rule::kSignum},
                                                         {"dcasgd", Rule::kDcasgd},
                                                         {"lbsgd", Rule::kLbsgd},
                                                         {"lbsgd(lars)", Rule::kLbsgd},
                                                         {"adam", Rule::kAdam},
                                                         {"adam@v0.7", Rule::kOldAdam},
                                                         {"adamax", Rule::kAdamax},
                                                         {"adagrad", Rule::kAdagrad},
                                                         {"rmsprop", Rule::kRmsprop},
                                                         {"rmsprop(centered)", Rule::kCenteredRmsprop},
                                                         {"rmsprop@v0.7", Rule::kOldRmsprop},
                                                         {"adadelta", Rule::kAdadelta},
                                                         {"ftrl", Rule::kFtrl}};
  return rules.at(optim::rule_name(spec));
}

// The device's side of an update: arrays, table, scalars.
class Network {
 public:
  explicit Network(const optim::OptimizerSpec& spec) : spec_(spec), table_(0) {
    std::vector<int64_t> counts;
    for (const Parameter& p : kParameters) {
      weights.push_back(floats_at(p, normals(static_cast<size_t>(p.count), counts.size())));
      for (size_t slot = 0; slot < kSlotsMax; slot++) {
        state.push_back(floats_at(p, Floats(static_cast<size_t>(p.count))));
      }
      gradients.emplace_back(p.gradient, p.count, p.skew);
      copies.emplace_back(p.copy, p.count, p.skew);
      const optim::Multipliers multipliers = multipliers_of(p, spec);
      tensors.push_back({.weight = weights.back().floats(),
                         .gradient = gradients.back().data(),
                         .copy = p.has_copy ? copies.back().data() : nullptr,
                         .count = p.count,
                         .learning_rate = multipliers.learning_rate,
                         .weight_decay = spec.weight_decay * multipliers.weight_decay,
                         .gradient_type = p.gradient,
                         .copy_type = p.copy,
                         .array = counts.size(),
                         .begin = kBegin,
                         .adapts = multipliers.adapts});
      for (size_t slot = 0; slot < optim::state_slots(spec)->size(); slot++) {
        tensors.back().state[slot] = state_of(counts.size(), slot).floats();
      }
      counts.push_back(p.count);
    }
    const std::vector<Chunk> chunks = chunks_of(counts);
    table_ = DeviceMemory(kCount * sizeof(UpdateTensor) + chunks.size() * sizeof(Chunk));
    std::memcpy(table_.at(0), tensors.data(), kCount * sizeof(UpdateTensor));
    std::memcpy(table_.at(kCount * sizeof(UpdateTensor)), chunks.data(), chunks.size() * sizeof(Chunk));
    chunk_count_ = static_cast<int64_t>(chunks.size());
  }

  [[nodiscard]] Table<UpdateTensor> table() const {
    return {static_cast<const UpdateTensor*>(table_.at(0)),
            static_cast<const Chunk*>(table_.at(kCount * sizeof(UpdateTensor))), chunk_count_, update_bytes(tensors)};
  }
  void set_gradients(uint64_t seed, float scale) {
    for (size_t i = 0; i < kCount; i++) {
      Floats g = normals(static_cast<size_t>(kParameters[i].count), seed * 100 + i);
      for (float& x : g) x *= scale;
      gradients[i].set(g);
    }
  }
  void update(const StepScalars& step, const float* nonfinite = nullptr) const {
    update(StepChoice{.scalars = &step}, nonfinite);
  }
  void update(const StepChoice& step, const float* nonfinite) const {
    const std::vector<double> rates = norm_rates(step);
    cuda::update({.rule = rule_of(spec_),
                  .table = table(),
                  .scalars = optim::scalars_of(spec_, {.norms = optim::Norms{}}),
                  .momentum = spec_.momentum,
                  .step = step,
                  .nonfinite = nonfinite,
                  .norm_rates = rates.empty() ? nullptr : rates.data()},
                 nullptr);
  }
  // By tensor; none for a rule without norms.
  [[nodiscard]] std::vector<double> norm_rates(const StepChoice& step) const {
    if (!optim::uses_norms(spec_)) return {};
    std::vector<int64_t> counts, first = {0};
    for (const Parameter& p : kParameters) {
      counts.push_back(p.count);
      first.push_back(first.back() + (p.count + kNormBlock - 1) / kNormBlock);
    }
    const std::vector<Chunk> chunks = chunks_of(counts, kNormBlock);
    std::vector<double> squares(2 * chunks.size()), rates(kCount);
    const optim::Parameters parameters = optim::rule_parameters(spec_);
    find_norm_rates({.rule = spec_.name == "lars" ? NormRates::Rule::kLars : NormRates::Rule::kLbsgd,
                     .table = {tensors.data(), chunks.data(), std::ssize(chunks), norm_bytes(tensors, false)},
                     .tensors = kCount,
                     .first_chunk = first.data(),
                     .parameters = {parameters[0], parameters[1]},
                     .accumulated = optim::accumulated_updates(spec_),
                     .step = step,
                     .squares = squares.data(),
                     .rates = rates.data()},
                    nullptr);
    return rates;
  }
  [[nodiscard]] const Array& state_of(size_t parameter, size_t slot) const {
    return state[parameter * kSlotsMax + slot];
  }
  [[nodiscard]] Results results() const {
    Results all;
    for (size_t i = 0; i < kCount; i++) {
      all.push_back(weights[i].get());
      for (size_t slot = 0; slot < kSlotsMax; slot++) all.push_back(state_of(i, slot).get());
      all.push_back(copies[i].get());
    }
    return all;
  }

  std::vector<Array> weights, state, gradients, copies;  // state: by parameter, then slot
  std::vector<UpdateTensor> tensors;

 private:
  static Array floats_at(const Parameter& p, const Floats& values) { return {Type::kFloat32, values, p.skew}; }

  optim::OptimizerSpec spec_;
  DeviceMemory table_;
  int64_t chunk_count_ = 0;
};

constexpr int kSteps = 3;

double rate_of(int step) {
  return 0.1 / (1 + step);
}
double rate_change(int step) {
  return step == 0 ? 1 : rate_of(step) / rate_of(step - 1);
}

StepScalars scalars_of(const optim::OptimizerSpec& spec, int step) {
  return {.learning_rate = rate_of(step),
          .correction = optim::rate_correction(spec, static_cast<uint64_t>(step) + 1),
          .gradient_scale = 1.0 / 96,
          .momentum_factor = optim::momentum_factor(spec, rate_change(step)),
          .noise = optim::noise_of_update(spec, static_cast<uint64_t>(step) + 1),
          .applies = optim::applies(spec, static_cast<uint64_t>(step) + 1)};
}

Results device_steps(const optim::OptimizerSpec& spec) {
  Network network(spec);
  for (int step = 0; step < kSteps; step++) {
    network.set_gradients(static_cast<uint64_t>(step), 1);
    const StepScalars scalars = scalars_of(spec, step);
    network.update(scalars);
  }
  return network.results();
}

// The same steps with optim, whose gradients are those of the device's types.
Results host_steps(const optim::OptimizerSpec& spec) {
  Results all;
  Network network(spec);
  for (size_t i = 0; i < kCount; i++) {
    const Parameter& p = kParameters[i];
    Floats w = network.weights[i].get(), g(w.size());
    const auto optimizer = optim::make_host_optimizer(spec, 1).value();
    optimizer->bind({{{.multipliers = multipliers_of(p, spec), .weight = w, .gradient = g, .part = {i, kBegin}}}});
    for (int step = 0; step < kSteps; step++) {
      network.set_gradients(static_cast<uint64_t>(step), 1);
      std::ranges::copy(network.gradients[i].get(), g.begin());
      optimizer->update(0, {.learning_rate = rate_of(step),
                            .gradient_scale = scalars_of(spec, step).gradient_scale,
                            .updates = static_cast<uint64_t>(step) + 1,
                            .rate_change = rate_change(step)});
    }
    all.push_back(w);
    const size_t slots = optim::state_slots(spec)->size();
    for (size_t slot = 0; slot < kSlotsMax; slot++) {
      const std::span<const float> state = slot < slots ? optimizer->state(0, 0, slot) : std::span<const float>();
      all.emplace_back(state.begin(), state.end());
      all.back().resize(w.size());
    }
    all.push_back(p.has_copy ? rounded(p.copy, w) : Floats(w.size()));
  }
  return all;
}

}  // namespace

TEST_CASE("an update of many tensors agrees with optim, to the bit", "[cuda]") {
  std::vector<std::string> rules = optim::optimizer_names();
  rules.insert(rules.end(),
               {"rmsprop(centered=1,clip_weights=0.9)", "signum(wd_lh=0.1)", "adam(beta1=0.5)", "lbsgd(batch_scale=2)",
                "lbsgd(batch_scale=2,lars=1)", "lars(eta=0.1,eps=0.01,momentum_correction=0)"});
  for (const std::string& rule : rules) {
    for (const auto& [momentum, clip] : {std::pair{0.0, 0.0}, {0.9, 0.0}, {0.9, 0.01}, {0.0, 0.01}}) {
      const optim::OptimizerSpec spec =
          optim::parse_optimizer(rule, {.momentum = momentum, .weight_decay = 1e-4, .clip_gradient = clip}).value();
      if (momentum == 0 && !optim::takes_momentum(spec)) continue;
      INFO(rule << ", momentum " << momentum << ", clip " << clip);
      const Results expected = host_steps(spec), results = in_all_orders([&] { return device_steps(spec); });
      REQUIRE(results.size() == expected.size());
      for (size_t i = 0; i < results.size(); i++) {
        INFO("parameter " << i / (2 + kSlotsMax) << ", array " << i % (2 + kSlotsMax));
        REQUIRE(same_bits(results[i], expected[i]));
      }
    }
  }
}

TEST_CASE("no rule divides by a rate of 0", "[cuda]") {
  for (const std::string& rule : optim::optimizer_names()) {
    Network network({.name = rule, .momentum = 0.9, .weight_decay = 0});
    INFO(rule);
    network.set_gradients(1, 1);
    const Floats before = network.weights[3].get();
    network.update({.learning_rate = 0});
    for (const float w : network.weights[3].get()) REQUIRE(std::isfinite(w));
    if (rule != "adadelta") CHECK(same_bits(network.weights[3].get(), before));
  }
}

TEST_CASE("without a loss scale gradients are taken as they are, NaN included", "[cuda]") {
  Network network({.momentum = 0, .weight_decay = 0, .clip_gradient = 1});
  network.set_gradients(1, 1);
  network.gradients[2].set({NAN});
  const Floats before = network.weights[0].get(), g = network.gradients[0].get();
  const StepScalars step{.learning_rate = 0.5};
  network.update(step);
  CHECK(network.weights[0].get()[0] == before[0] - 0.5f * std::clamp(g[0], -1.0f, 1.0f));
  CHECK(std::isnan(network.weights[2].get()[0]));
}

TEST_CASE("one gradient that is not finite is found wherever it is, and stops the update", "[cuda]") {
  Network network({.momentum = 0.9});
  for (size_t i = 0; i < kCount; i++) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      for (const int64_t place : {int64_t{0}, kParameters[i].count / 2, kParameters[i].count - 1}) {
        network.set_gradients(1, 1);
        LossScale step_state;
        find_nonfinite(network.table(), &step_state, nullptr);
        REQUIRE(step_state.nonfinite == 0);
        REQUIRE(step_state.bad_array == 0);
        Floats g = network.gradients[i].get();
        g[static_cast<size_t>(place)] = bad;
        network.gradients[i].set(g);
        find_nonfinite(network.table(), &step_state, nullptr);
        INFO("parameter " << i << " at " << place);
        REQUIRE(step_state.nonfinite == 1);
        REQUIRE(step_state.bad_array == network.tensors[i].array + 1);
        const Results before = network.results();
        const StepScalars step{.learning_rate = 0.1};
        network.update(step, &step_state.nonfinite);
        const Results after = network.results();
        for (size_t k = 0; k < before.size(); k++) REQUIRE(same_bits(before[k], after[k]));
      }
    }
  }
}

TEST_CASE("an update has the scalars for what became of the step before", "[cuda]") {
  for (const char* rule : {"sgd", "adam", "lars"}) {
    const optim::OptimizerSpec spec{.name = rule};
    const std::array scalars = {scalars_of(spec, 0), scalars_of(spec, 2)};
    for (const bool skipped : {false, true}) {
      INFO(rule << ", skipped " << skipped);
      LossScale outcome{.nonfinite = skipped ? 2.0F : 0.0F};
      adjust_loss_scale({.dynamic = false, .loss_scale = &outcome}, nullptr);
      Network expected(spec), chosen(spec);
      for (Network* network : {&expected, &chosen}) network->set_gradients(1, 1);
      expected.update(scalars[skipped ? 1 : 0]);
      chosen.update({scalars.data(), &outcome.last_skipped}, nullptr);
      CHECK(chosen.results() == expected.results());
    }
  }
}

TEST_CASE("the largest numbers of each type are finite", "[cuda]") {
  Network network({.momentum = 0.9});
  network.set_gradients(1, 1);
  network.gradients[0].set({3.4028234e38f});
  network.gradients[1].set({65504, -65504, 0});
  LossScale step_state;
  find_nonfinite(network.table(), &step_state, nullptr);
  CHECK(step_state.nonfinite == 0);
}

// The backward pass reaches the last array first. The search of a later group must not hide what it has found.
TEST_CASE("of several arrays whose gradient is not finite, the last one is noted until the step ends", "[cuda]") {
  Network network({.momentum = 0.9});
  LossScale step_state;
  for (const size_t bad : {size_t{1}, size_t{0}}) {
    network.set_gradients(1, 1);
    Floats g = network.gradients[bad].get();
    g[0] = NAN;
    network.gradients[bad].set(g);
    find_nonfinite(network.table(), &step_state, nullptr);
    CHECK(step_state.bad_array == network.tensors[1].array + 1);
  }
  adjust_loss_scale({.loss_scale = &step_state}, nullptr);
  CHECK(step_state.bad_array == 0);
  CHECK(step_state.ended_bad_array == network.tensors[1].array + 1);
  adjust_loss_scale({.loss_scale = &step_state}, nullptr);
  CHECK(step_state.ended_bad_array == 0);
}

TEST_CASE("the loss scale halves after an overflow and doubles after enough good steps", "[cuda]") {
  LossScale scale{.scale = 8, .inverse = 0.125f};
  const AdjustLossScale adjust{.rule = {.growth_steps = 3, .max = 16}, .loss_scale = &scale};
  const auto step = [&](bool overflow) {
    scale.nonfinite = overflow ? 2 : 0;  // found by two ranks
    adjust_loss_scale(adjust, nullptr);
    CHECK(scale.nonfinite == 0);
    CHECK(scale.scale * scale.inverse == 1);
    return scale.scale;
  };
  CHECK(step(false) == 8);
  CHECK(step(true) == 4);
  CHECK(step(false) == 4);
  CHECK(step(false) == 4);
  CHECK(step(false) == 8);
  for (int i = 0; i < 3; i++) step(false);
  CHECK(scale.scale == 16);
  for (int i = 0; i < 3; i++) step(false);
  CHECK(scale.scale == 16);  // the maximum
  for (int i = 0; i < 6; i++) step(true);
  CHECK(scale.scale == 1);  // the minimum
  CHECK(scale.skipped == 7);
}

TEST_CASE("updates report the bytes that they move", "[cuda]") {
  const std::vector<UpdateTensor> tensors = {{.count = 10},
                                             {.state = {reinterpret_cast<float*>(16)},
                                              .copy = reinterpret_cast<void*>(16),
                                              .count = 100,
                                              .gradient_type = Type::kFloat16,
                                              .copy_type = Type::kFloat16}};
  CHECK(update_bytes(tensors) == 10 * 12 + 100 * 20);
  CHECK(gradient_bytes(tensors) == 10 * 4 + 100 * 2);
}

TEST_CASE("a scale that is not dynamic stays as it is", "[cuda]") {
  LossScale scale{.scale = 128, .inverse = 1.0F / 128};
  for (const float nonfinite : {0.0F, 0.0F, 0.0F, 1.0F}) {
    scale.nonfinite = nonfinite;
    adjust_loss_scale({.dynamic = false, .rule = {.growth_steps = 2}, .loss_scale = &scale}, nullptr);
    CHECK(scale.scale == 128);
    CHECK(scale.nonfinite == 0);
  }
  CHECK(scale.skipped == 1);
}

TEST_CASE("a skipped step restores what it had changed", "[cuda]") {
  for (const float nonfinite : {0.0F, 1.0F}) {
    const Array kept = floats({1, 2, 3, 4, 5}), values = floats({6, 7, 8, 9, 10});
    restore_if_nonfinite({.kept = kept.floats(), .values = values.floats(), .count = 5, .nonfinite = &nonfinite},
                         nullptr);
    CHECK(values.get() == (nonfinite == 0 ? Floats{6, 7, 8, 9, 10} : Floats{1, 2, 3, 4, 5}));
  }
}

}  // namespace dtrain::cuda::test
