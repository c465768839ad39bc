#include "optim/optimizer.h"

#include "base/simd.h"

namespace dtrain::optim {
namespace {

// One scalar of each formula, rounded to float32 once.
struct SgdScalars {
  float learning_rate;
  float weight_decay;
  float momentum;
  float gradient_scale;
  float clip;  // 0: off
};

float cut(float g, float clip) {
  // A gradient that is not a number stays one: both comparisons are false.
  return g > clip ? clip : (g < -clip ? -clip : g);
}

// The two loops of a rule differ by the cut alone: a branch inside would be taken for every element.
DT_MULTI_ISA void sgd_plain(const SgdScalars& s, size_t n, float* w, const float* g) {
  const float keep = 1 - s.learning_rate * s.weight_decay;
  for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - s.learning_rate * (s.gradient_scale * g[i]);
}

DT_MULTI_ISA void sgd_plain_clipped(const SgdScalars& s, size_t n, float* w, const float* g) {
  const float keep = 1 - s.learning_rate * s.weight_decay;
  for (size_t i = 0; i < n; i++) w[i] = keep * w[i] - s.learning_rate * cut(s.gradient_scale * g[i], s.clip);
}

DT_MULTI_ISA void sgd_momentum(const SgdScalars& s, size_t n, float* __restrict__ w, const float* __restrict__ g,
                               float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    v[i] = s.momentum * v[i] - s.learning_rate * (s.gradient_scale * g[i] + s.weight_decay * w[i]);
    w[i] += v[i];
  }
}

DT_MULTI_ISA void sgd_momentum_clipped(const SgdScalars& s, size_t n, float* __restrict__ w,
                                       const float* __restrict__ g, float* __restrict__ v) {
  for (size_t i = 0; i < n; i++) {
    v[i] = s.momentum * v[i] - s.learning_rate * (cut(s.gradient_scale * g[i], s.clip) + s.weight_decay * w[i]);
    w[i] += v[i];
  }
}

}  // namespace

Multipliers multipliers_of(std::string_view parameter) {
  const bool decays = parameter.ends_with("_weight") || parameter.ends_with("_gamma");
  return {.learning_rate = 1, .weight_decay = decays ? 1.0 : 0.0};
}

Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec) {
  if (spec.name != "sgd") return fail(Code::kUsage, "unknown optimizer '{}': there is sgd", spec.name);
  if (spec.momentum == 0) return std::vector<std::string>{};
  return std::vector<std::string>{"mom"};
}

void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state) {
  DT_CHECK(spec.name == "sgd", "the rule '{}' was not refused", spec.name);
  DT_CHECK(w.size() == g.size(), "{} weights, {} gradients", w.size(), g.size());
  const SgdScalars scalars{
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
  DT_CHECK(state.size() == 1 && state[0].size() == w.size(), "sgd with momentum keeps one array of the weights' size");
  (clipped ? sgd_momentum_clipped : sgd_momentum)(scalars, w.size(), w.data(), g.data(), state[0].data());
}

}  // namespace dtrain::optim
