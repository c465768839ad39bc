#include "optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/simd.h"
#include "optim/rules.h"

namespace dtrain::optim {
namespace {

constexpr float kNoClip = std::numeric_limits<float>::infinity();

// The rules that only need a momentum are what most networks are trained with. Each has two loops that differ only in
// the clipping, which would otherwise be two comparisons for every element.
DT_MULTI_ISA void sgd_plain(Scalars s, size_t n, float* w, const float* g) {
  for (size_t i = 0; i < n; i++) formula::sgd_plain(s, s.gradient_scale * g[i], w[i]);
}

DT_MULTI_ISA void sgd_plain_clipped(Scalars s, size_t n, float* w, const float* g) {
  for (size_t i = 0; i < n; i++) formula::sgd_plain(s, cut(s.gradient_scale * g[i], s.clip), w[i]);
}

DT_MULTI_ISA void sgd_momentum(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                               float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::sgd(s, s.gradient_scale * g[i], w[i], v[i]);
}

DT_MULTI_ISA void sgd_momentum_clipped(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                       float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::sgd(s, cut(s.gradient_scale * g[i], s.clip), w[i], v[i]);
}

DT_MULTI_ISA void nag_momentum(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                               float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::nag(s, s.gradient_scale * g[i], w[i], v[i]);
}

DT_MULTI_ISA void nag_momentum_clipped(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                       float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::nag(s, cut(s.gradient_scale * g[i], s.clip), w[i], v[i]);
}

DT_MULTI_ISA void old_nag_momentum(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                   float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::nag_of_v07(s, s.gradient_scale * g[i], w[i], v[i]);
}

DT_MULTI_ISA void old_nag_momentum_clipped(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                           float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::nag_of_v07(s, cut(s.gradient_scale * g[i], s.clip), w[i], v[i]);
}

DT_MULTI_ISA void signum_plain(Scalars s, size_t n, float* w, const float* g) {
  for (size_t i = 0; i < n; i++) formula::signum_plain(s, s.gradient_scale * g[i], w[i]);
}

DT_MULTI_ISA void signum_momentum(Scalars s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                  float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) formula::signum(s, cut(s.gradient_scale * g[i], s.clip), w[i], v[i]);
}

using WithoutMomentum = decltype(&sgd_plain);
using WithMomentum = decltype(&sgd_momentum);

template <WithoutMomentum plain, WithoutMomentum plain_clipped, WithMomentum momentum, WithMomentum momentum_clipped>
void by_momentum(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  const bool clips = s.clip < kNoClip;
  if (s.momentum == 0) return (clips ? plain_clipped : plain)(s, n, w, g);
  (clips ? momentum_clipped : momentum)(s, n, w, g, state[0]);
}

std::vector<Rule> all_rules() {
  constexpr Loop kSgd = by_momentum<sgd_plain, sgd_plain_clipped, sgd_momentum, sgd_momentum_clipped>;
  constexpr Loop kNag = by_momentum<sgd_plain, sgd_plain_clipped, nag_momentum, nag_momentum_clipped>;
  constexpr Loop kOldNag = by_momentum<sgd_plain, sgd_plain_clipped, old_nag_momentum, old_nag_momentum_clipped>;
  constexpr Loop kSignum = by_momentum<signum_plain, signum_plain, signum_momentum, signum_momentum>;
  std::vector<Rule> rules = {{"sgd", {"mom"}, true, kSgd},
                             {"ccsgd", {"mom"}, true, kSgd},
                             {"nag", {"mom"}, true, kNag},
                             {"nag@v0.7", {"mom"}, true, kOldNag},
                             {"signum", {"mom"}, true, kSignum}};
  for (Rule& rule : adaptive_rules()) rules.push_back(std::move(rule));
  return rules;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = all_rules();
  return all;
}

const Rule* find_rule(std::string_view name) {
  const auto found = std::ranges::find(rules(), name, &Rule::name);
  return found == rules().end() ? nullptr : &*found;
}

float clip_of(const OptimizerSpec& spec) {
  return spec.clip_gradient > 0 ? static_cast<float>(spec.clip_gradient) : kNoClip;
}

size_t slot_count(const Rule& rule, const OptimizerSpec& spec) {
  return rule.takes_momentum && spec.momentum == 0 ? 0 : rule.slots.size();
}

}  // namespace

Multipliers multipliers_of(ParameterKind kind, const ParameterRule& rule) {
  const bool decays = kind == ParameterKind::kWeight || kind == ParameterKind::kGamma;
  return {.learning_rate = rule.learning_rate.value_or(1), .weight_decay = rule.weight_decay.value_or(decays ? 1 : 0)};
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Rule& rule : rules()) names.emplace_back(rule.name);
  return names;
}

bool takes_momentum(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec.name);
  return rule != nullptr && rule->takes_momentum;
}

bool counts_updates(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec.name);
  return rule != nullptr && rule->correction != nullptr;
}

Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec.name);
  if (rule == nullptr) {
    return fail(Code::kUsage, "unknown optimizer '{}': use {}", spec.name, fmt::join(optimizer_names(), ", "));
  }
  const auto end = rule->slots.begin() + static_cast<std::ptrdiff_t>(slot_count(*rule, spec));
  return std::vector<std::string>(rule->slots.begin(), end);
}

Correction rate_correction(const OptimizerSpec& spec, uint64_t update) {
  const Rule* rule = find_rule(spec.name);
  DT_CHECK(update > 0, "the first update has the number 1");
  return rule != nullptr && rule->correction != nullptr ? rule->correction(update) : Correction{};
}

Scalars scalars_of(const OptimizerSpec& spec, const UpdateStep& step) {
  const Rule* rule = find_rule(spec.name);
  DT_CHECK(rule != nullptr, "unknown optimizer '{}'", spec.name);
  const Correction correction = rate_correction(spec, step.updates);
  const double rate = step.learning_rate * step.multipliers.learning_rate;
  Scalars scalars{.learning_rate = static_cast<float>(rate * correction.numerator / correction.denominator),
                  .weight_decay = static_cast<float>(spec.weight_decay * step.multipliers.weight_decay),
                  .momentum = static_cast<float>(spec.momentum),
                  .gradient_scale = static_cast<float>(step.gradient_scale),
                  .clip = clip_of(spec),
                  .parameters = {}};
  DT_CHECK(rule->parameters.size() <= kParametersMax, "{} has too many parameters", spec.name);
  for (size_t i = 0; i < rule->parameters.size(); i++) {
    scalars.parameters[i] = static_cast<float>(rule->parameters[i].value);
  }
  return scalars;
}

void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state) {
  const Rule* rule = find_rule(spec.name);
  DT_CHECK(rule != nullptr, "unknown optimizer '{}'", spec.name);
  DT_CHECK(w.size() == g.size(), "{} weights, {} gradients", w.size(), g.size());
  const size_t slots = slot_count(*rule, spec);
  DT_CHECK(state.size() == slots && slots <= kSlotsMax, "{} keeps {} arrays of the weights' size, not {}", spec.name,
           slots, state.size());
  std::array<float*, kSlotsMax> pointers = {};
  for (size_t i = 0; i < slots; i++) {
    DT_CHECK(state[i].size() == w.size(), "{} weights with a state of {}", w.size(), state[i].size());
    pointers[i] = state[i].data();
  }
  if (!rule->takes_momentum && step.multipliers.learning_rate == 0) return;
  rule->loop(scalars_of(spec, step), w.size(), w.data(), g.data(), pointers.data());
}

}  // namespace dtrain::optim
