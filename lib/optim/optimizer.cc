#include "optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/random.h"
#include "base/simd.h"
#include "optim/rules.h"

namespace dtrain::optim {
namespace {

constexpr float kNoClip = std::numeric_limits<float>::infinity();

// The rules that need only a momentum, with which most networks are trained. Each has two loops, with and without
// clipping, because clipping takes two comparisons for every element.
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

DT_MULTI_ISA void sgld(Scalars s, size_t n, float* w, const float* g, float* const*) {
  for (size_t i = 0; i < n; i++) formula::sgld(s, s.gradient_scale * g[i], w[i], s.begin + i);
}

DT_MULTI_ISA void dcasgd(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *v = state[0], *delta = state[1];
  for (size_t i = 0; i < n; i++) formula::dcasgd(s, s.gradient_scale * g[i], w[i], v[i], delta[i]);
}

DT_MULTI_ISA void lbsgd(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *v = state[0], *sum = state[1];
  if (s.applies) {
    for (size_t i = 0; i < n; i++) formula::lbsgd(s, s.gradient_scale * g[i], w[i], v[i], sum[i]);
  } else {
    for (size_t i = 0; i < n; i++) sum[i] += s.gradient_scale * g[i];
  }
}

using WithoutMomentum = decltype(&sgd_plain);
using WithMomentum = decltype(&sgd_momentum);

template <WithoutMomentum plain, WithoutMomentum plain_clipped, WithMomentum momentum, WithMomentum momentum_clipped>
void by_momentum(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  const bool clips = s.clip < kNoClip;
  if (s.momentum == 0) return (clips ? plain_clipped : plain)(s, n, w, g);
  (clips ? momentum_clipped : momentum)(s, n, w, g, state[0]);
}

constexpr Loop kSgd = by_momentum<sgd_plain, sgd_plain_clipped, sgd_momentum, sgd_momentum_clipped>;

void signum(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  if (s.momentum == 0) return signum_plain(s, n, w, g);
  signum_momentum(s, n, w, g, state[0]);
}

std::vector<Rule> rules_by_norms() {
  const std::vector<std::string_view> slots = {"mom", "sum"};
  const std::vector<RuleParameter> of_lbsgd = {{"batch_scale", 1}, {"lars", 0}};
  return {{.name = "lars",
           .slots = {"mom"},
           .momentum = Rule::Momentum::kOptional,
           .loop = kSgd,
           .parameters = {{"eta", 0.001}, {"eps", 0}, {"momentum_correction", 1}},
           .rate_by_norms = lars_rate,
           .scales_weights_only = true,
           .corrects_momentum = true},
          {.name = "lbsgd",
           .slots = slots,
           .momentum = Rule::Momentum::kAlways,
           .loop = lbsgd,
           .parameters = of_lbsgd,
           .accumulates = true},
          {.name = "lbsgd(lars)",
           .slots = slots,
           .momentum = Rule::Momentum::kAlways,
           .loop = lbsgd,
           .parameters = of_lbsgd,
           .rate_by_norms = lbsgd_rate,
           .accumulates = true}};
}

std::vector<Rule> all_rules() {
  constexpr Loop kNag = by_momentum<sgd_plain, sgd_plain_clipped, nag_momentum, nag_momentum_clipped>;
  constexpr Loop kOldNag = by_momentum<sgd_plain, sgd_plain_clipped, old_nag_momentum, old_nag_momentum_clipped>;
  constexpr Rule::Momentum kOptional = Rule::Momentum::kOptional;
  std::vector<Rule> rules = {{"sgd", {"mom"}, kOptional, kSgd},
                             {"ccsgd", {"mom"}, kOptional, kSgd},
                             {"nag", {"mom"}, kOptional, kNag},
                             {"nag@v0.7", {"mom"}, kOptional, kOldNag},
                             {"sgld", {}, Rule::Momentum::kNone, sgld},
                             {"signum", {"mom"}, kOptional, signum, {{"wd_lh", 0}}},
                             {"dcasgd", {"mom", "delta"}, Rule::Momentum::kAlways, dcasgd, {{"lamda", 0.04}}}};
  for (Rule& rule : rules_by_norms()) rules.push_back(std::move(rule));
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

const Rule* find_rule(const OptimizerSpec& spec) {
  return find_rule(rule_name(spec));
}

Parameters parameters_of(const Rule& rule, const OptimizerSpec& spec) {
  Parameters values = {};
  DT_CHECK(rule.parameters.size() <= values.size(), "{} has too many parameters", spec.name);
  for (size_t i = 0; i < rule.parameters.size(); i++) {
    const auto given = spec.parameters.find(std::string(rule.parameters[i].name));
    values[i] = given == spec.parameters.end() ? rule.parameters[i].value : given->second;
  }
  return values;
}

// Sets the parameter given by a text "NAME=X".
Result<> set_parameter(const Rule& rule, std::string_view text, OptimizerSpec& spec) {
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  std::vector<std::string_view> names;
  for (const RuleParameter& parameter : rule.parameters) names.push_back(parameter.name);
  if (std::ranges::find(names, name) == names.end()) {
    return fail(Code::kUsage, "the optimizer {} has no parameter '{}': it has {}", rule.name, name,
                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  const std::string number(equals == std::string_view::npos ? "" : text.substr(equals + 1));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != 0 || !std::isfinite(value)) {
    return fail(Code::kUsage, "the parameter {} of the optimizer {} needs a number, not '{}'", name, rule.name, number);
  }
  spec.parameters[name] = value;
  return {};
}

float clip_of(const OptimizerSpec& spec) {
  return spec.clip_gradient > 0 ? static_cast<float>(spec.clip_gradient) : kNoClip;
}

size_t slot_count(const Rule& rule, const OptimizerSpec& spec) {
  return rule.momentum == Rule::Momentum::kOptional && spec.momentum == 0 ? 0 : rule.slots.size();
}

}  // namespace

Multipliers multipliers_of(ParameterKind kind, const ParameterRule& rule, const OptimizerSpec& spec) {
  const Rule* const known = find_rule(spec);
  const bool is_weight = kind == ParameterKind::kWeight, weights_only = known != nullptr && known->scales_weights_only;
  const bool decays = is_weight || (kind == ParameterKind::kGamma && !weights_only);
  return {.learning_rate = rule.learning_rate.value_or(1),
          .weight_decay = rule.weight_decay.value_or(decays ? 1 : 0),
          .adapts = is_weight || !weights_only};
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Rule& rule : rules()) {
    if (rule.name.find('(') == std::string_view::npos) names.emplace_back(rule.name);
  }
  return names;
}

std::string_view rule_name(const OptimizerSpec& spec) {
  const auto is_set = [&](const char* parameter) {
    const auto found = spec.parameters.find(parameter);
    return found != spec.parameters.end() && found->second != 0;
  };
  if (spec.name == "rmsprop" && is_set("centered")) return "rmsprop(centered)";
  if (spec.name == "lbsgd" && is_set("lars")) return "lbsgd(lars)";
  return spec.name;
}

Result<OptimizerSpec> parse_optimizer(std::string_view text, OptimizerSpec spec) {
  const size_t open = text.find('(');
  spec.name = text.substr(0, open);
  spec.parameters.clear();
  DT_TRY_VOID(state_slots(spec));
  if (open == std::string_view::npos) return spec;
  if (!text.ends_with(')')) return fail(Code::kUsage, "'{}' must have the form NAME(PARAMETER=X,...)", text);
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  if (rest.empty()) return spec;
  while (true) {
    const size_t comma = rest.find(',');
    DT_TRY_VOID(set_parameter(*find_rule(spec.name), rest.substr(0, comma), spec));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

bool takes_momentum(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  return rule != nullptr && rule->momentum != Rule::Momentum::kNone;
}

bool uses_norms(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  return rule != nullptr && rule->rate_by_norms != nullptr;
}

uint64_t accumulated_updates(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  return rule == nullptr || !rule->accumulates ? 0 : static_cast<uint64_t>(parameters_of(*rule, spec)[0]);
}

bool applies(const OptimizerSpec& spec, uint64_t update) {
  const uint64_t accumulated = accumulated_updates(spec);
  return accumulated == 0 || update % accumulated == 0;
}

bool counts_updates(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  return rule != nullptr && rule->correction != nullptr;
}

Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  if (rule == nullptr) {
    return fail(Code::kUsage, "unknown optimizer '{}': use {}", spec.name, fmt::join(optimizer_names(), ", "));
  }
  const auto end = rule->slots.begin() + static_cast<std::ptrdiff_t>(slot_count(*rule, spec));
  return std::vector<std::string>(rule->slots.begin(), end);
}

Correction rate_correction(const OptimizerSpec& spec, uint64_t update) {
  const Rule* rule = find_rule(spec);
  DT_CHECK(update > 0, "updates are numbered from 1");
  if (rule == nullptr || rule->correction == nullptr) return {};
  return rule->correction(parameters_of(*rule, spec), update);
}

double momentum_factor(const OptimizerSpec& spec, double rate_change) {
  const Rule* rule = find_rule(spec);
  const bool corrects = rule != nullptr && rule->corrects_momentum && parameters_of(*rule, spec)[2] != 0;
  return corrects ? rate_change : 1;
}

Parameters rule_parameters(const OptimizerSpec& spec) {
  const Rule* rule = find_rule(spec);
  return rule == nullptr ? Parameters{} : parameters_of(*rule, spec);
}

// Computes the same key as RandomStream(seed, Use::kUpdateNoise, update, array), before the array is mixed in.
uint64_t noise_of_update(const OptimizerSpec& spec, uint64_t update) {
  return mix64(mix64(mix64(spec.seed) ^ static_cast<uint64_t>(Use::kUpdateNoise)) ^ update);
}

Scalars scalars_of(const OptimizerSpec& spec, const UpdateStep& step) {
  const Rule* rule = find_rule(spec);
  DT_CHECK(rule != nullptr, "unknown optimizer '{}'", spec.name);
  const Correction correction = rate_correction(spec, step.updates);
  const Parameters parameters = parameters_of(*rule, spec);
  const double weight_decay = spec.weight_decay * step.multipliers.weight_decay;
  double rate = step.learning_rate * step.multipliers.learning_rate;
  if (rule->rate_by_norms != nullptr && step.multipliers.adapts && applies(spec, step.updates)) {
    DT_CHECK(step.norms.has_value(), "{} needs the norms of the array", spec.name);
    rate *= rule->rate_by_norms(parameters.data(), *step.norms, step.gradient_scale, weight_decay);
  }
  Scalars scalars{.learning_rate = static_cast<float>(rate * correction.numerator / correction.denominator),
                  .weight_decay = static_cast<float>(weight_decay),
                  .momentum = static_cast<float>(spec.momentum * momentum_factor(spec, step.rate_change)),
                  .gradient_scale = static_cast<float>(step.gradient_scale),
                  .clip = clip_of(spec),
                  .parameters = {},
                  .noise_key = noise::mixed(noise_of_update(spec, step.updates) ^ step.part.array),
                  .begin = step.part.begin,
                  .applies = applies(spec, step.updates)};
  std::ranges::transform(parameters, scalars.parameters, [](double value) { return static_cast<float>(value); });
  return scalars;
}

void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state) {
  const Rule* rule = find_rule(spec);
  DT_CHECK(rule != nullptr, "unknown optimizer '{}'", spec.name);
  DT_CHECK(w.size() == g.size(), "there are {} weights, but {} gradients", w.size(), g.size());
  const size_t slots = slot_count(*rule, spec);
  DT_CHECK(state.size() == slots && slots <= kSlotsMax, "the state of {} has {} arrays, but {} were given", spec.name,
           slots, state.size());
  std::array<float*, kSlotsMax> pointers = {};
  for (size_t i = 0; i < slots; i++) {
    DT_CHECK(state[i].size() == w.size(), "there are {} weights, but an array of the optimizer's state has {} elements",
             w.size(), state[i].size());
    pointers[i] = state[i].data();
  }
  if (rule->momentum == Rule::Momentum::kNone && step.multipliers.learning_rate == 0) return;
  rule->loop(scalars_of(spec, step), w.size(), w.data(), g.data(), pointers.data());
}

}  // namespace dtrain::optim
