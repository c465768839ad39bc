#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>

#include "base/simd.h"

namespace dtrain::optim {
namespace {

// The scalars of the formulas, each rounded to float32 once.
struct Scalars {
  float learning_rate;
  float weight_decay;
  float momentum;
  float gradient_scale;
  float clip;  // 0: off
};

float cut(float g, float clip) {
  // A NaN stays a NaN, since both comparisons are false.
  return g > clip ? clip : (g < -clip ? -clip : g);
}

// Each rule has two loops that differ only in the clipping, which would otherwise be a branch for every element.
DT_MULTI_ISA void sgd_plain(const Scalars& s, size_t n, float* w, const float* g) {
  const float keep = 1 - s.learning_rate * s.weight_decay;
  for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - s.learning_rate * (s.gradient_scale * g[i]);
}

DT_MULTI_ISA void sgd_plain_clipped(const Scalars& s, size_t n, float* w, const float* g) {
  const float keep = 1 - s.learning_rate * s.weight_decay;
  for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - s.learning_rate * cut(s.gradient_scale * g[i], s.clip);
}

DT_MULTI_ISA void sgd_momentum(const Scalars& s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                               float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    v[i] = s.momentum * v[i] - s.learning_rate * (s.gradient_scale * g[i] + s.weight_decay * w[i]);
    w[i] += v[i];
  }
}

DT_MULTI_ISA void sgd_momentum_clipped(const Scalars& s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                       float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    v[i] = s.momentum * v[i] - s.learning_rate * (cut(s.gradient_scale * g[i], s.clip) + s.weight_decay * w[i]);
    w[i] += v[i];
  }
}

DT_MULTI_ISA void nag_momentum(const Scalars& s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                               float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    const float h = s.gradient_scale * g[i] + s.weight_decay * w[i];
    v[i] = s.momentum * v[i] + h;
    w[i] -= s.learning_rate * (h + s.momentum * v[i]);
  }
}

DT_MULTI_ISA void nag_momentum_clipped(const Scalars& s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                                       float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], s.clip) + s.weight_decay * w[i];
    v[i] = s.momentum * v[i] + h;
    w[i] -= s.learning_rate * (h + s.momentum * v[i]);
  }
}

// The loops of a rule with momentum.
struct Loops {
  std::string_view name;
  decltype(&sgd_momentum) plain, clipped;
};
const Loops kRules[] = {{"sgd", sgd_momentum, sgd_momentum_clipped}, {"nag", nag_momentum, nag_momentum_clipped}};

const Loops* find_rule(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Loops& r) { return r.name == name; });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace

Multipliers multipliers_of(ParameterKind kind, const ParameterRule& rule) {
  const bool decays = kind == ParameterKind::kWeight || kind == ParameterKind::kGamma;
  return {.learning_rate = rule.learning_rate.value_or(1), .weight_decay = rule.weight_decay.value_or(decays ? 1 : 0)};
}

Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec) {
  if (find_rule(spec.name) == nullptr) return fail(Code::kUsage, "unknown optimizer '{}': use sgd or nag", spec.name);
  if (spec.momentum == 0) return std::vector<std::string>{};
  return std::vector<std::string>{"mom"};
}

void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state) {
  const Loops* rule = find_rule(spec.name);
  DT_CHECK(rule != nullptr, "unknown optimizer '{}'", spec.name);
  DT_CHECK(w.size() == g.size(), "{} weights, {} gradients", w.size(), g.size());
  const Scalars scalars{
      .learning_rate = static_cast<float>(step.learning_rate * step.multipliers.learning_rate),
      .weight_decay = static_cast<float>(spec.weight_decay * step.multipliers.weight_decay),
      .momentum = static_cast<float>(spec.momentum),
      .gradient_scale = static_cast<float>(step.gradient_scale),
      .clip = static_cast<float>(spec.clip_gradient),
  };
  const bool clipped = spec.clip_gradient > 0;
  if (spec.momentum == 0) {
    (clipped ? sgd_plain_clipped : sgd_plain)(scalars, w.size(), w.data(), g.data());
    return;
  }
  DT_CHECK(state.size() == 1 && state[0].size() == w.size(), "{} with momentum keeps one array of the weights' size",
           spec.name);
  (clipped ? rule->clipped : rule->plain)(scalars, w.size(), w.data(), g.data(), state[0].data());
}

}  // namespace dtrain::optim
