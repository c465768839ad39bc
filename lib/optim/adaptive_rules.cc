#include <algorithm>
#include <cmath>
#include <limits>

#include "base/simd.h"
#include "optim/rules.h"

namespace dtrain::optim {
namespace {

// The parameters of the rules are those that MXNet's scripts use; they have no flags there either.
constexpr float kBeta1 = 0.9F, kBeta2 = 0.999F;  // adam, adamax
constexpr float kAdamEpsilon = 1e-8F;
constexpr float kAdagradEpsilon = 1e-7F;
constexpr float kRmspropGamma = 0.9F, kRmspropEpsilon = 1e-8F;
constexpr float kOldRmspropGamma1 = 0.95F, kOldRmspropGamma2 = 0.9F, kOldRmspropEpsilon = 1e-4F;
constexpr float kAdadeltaRho = 0.9F, kAdadeltaEpsilon = 1e-5F;
constexpr float kFtrlLambda1 = 0.01F, kFtrlBeta = 1;

float clip_of(const Scalars& s) {
  return s.clip > 0 ? s.clip : std::numeric_limits<float>::infinity();
}

// The learning rate with which adam corrects the means of its first updates, which begin at 0.
float adam_rate(const Scalars& s) {
  const auto t = static_cast<double>(s.updates);
  return static_cast<float>(s.exact_rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)));
}

DT_MULTI_ISA void adam(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *var = state[1];
  const float rate = adam_rate(s), clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i] + s.weight_decay * w[i], clip);
    mean[i] = kBeta1 * mean[i] + (1 - kBeta1) * h;
    var[i] = kBeta2 * var[i] + (1 - kBeta2) * h * h;
    w[i] -= rate * mean[i] / (std::sqrt(var[i]) + kAdamEpsilon);
  }
}

DT_MULTI_ISA void adam_of_v07(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *var = state[1];
  const float rate = adam_rate(s), clip = clip_of(s);
  const float decay = rate * s.weight_decay;
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], clip);
    mean[i] = kBeta1 * mean[i] + (1 - kBeta1) * h;
    var[i] = kBeta2 * var[i] + (1 - kBeta2) * h * h;
    const float stepped = w[i] - rate * mean[i] / (std::sqrt(var[i]) + kAdamEpsilon);
    w[i] = stepped - decay * stepped;
  }
}

// A weight whose gradients were all 0 has a maximum of 0 and stays as it is.
DT_MULTI_ISA void adamax(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *largest = state[1];
  const float clip = clip_of(s);
  const auto rate = static_cast<float>(s.exact_rate / (1 - std::pow(0.9, static_cast<double>(s.updates))));
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i] + s.weight_decay * w[i], clip);
    const float kept = kBeta2 * largest[i], size = std::abs(h);
    mean[i] = kBeta1 * mean[i] + (1 - kBeta1) * h;
    largest[i] = kept > size ? kept : size;
    w[i] -= largest[i] == 0 ? 0 : rate * mean[i] / largest[i];
  }
}

DT_MULTI_ISA void adagrad(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float* sum_sq = state[0];
  const float clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], clip);
    sum_sq[i] += h * h;
    w[i] -= s.learning_rate * (h / std::sqrt(sum_sq[i] + kAdagradEpsilon) + s.weight_decay * w[i]);
  }
}

DT_MULTI_ISA void rmsprop(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float* mean_sq = state[0];
  const float clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i] + s.weight_decay * w[i], clip);
    mean_sq[i] = (1 - kRmspropGamma) * h * h + kRmspropGamma * mean_sq[i];
    w[i] -= s.learning_rate * (h / std::sqrt(mean_sq[i] + kRmspropEpsilon));
  }
}

// Rounding may make the mean square smaller than the square of the mean, hence the comparison with 0.
DT_MULTI_ISA void rmsprop_of_v07(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float *mean_sq = state[0], *mean = state[1], *delta = state[2];
  const float clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], clip);
    mean_sq[i] = (1 - kOldRmspropGamma1) * h * h + kOldRmspropGamma1 * mean_sq[i];
    mean[i] = (1 - kOldRmspropGamma1) * h + kOldRmspropGamma1 * mean[i];
    const float variance = mean_sq[i] - mean[i] * mean[i];
    const float root = std::sqrt((variance < 0 ? 0 : variance) + kOldRmspropEpsilon);
    delta[i] = kOldRmspropGamma2 * delta[i] - s.learning_rate * (h / root + s.weight_decay * w[i]);
    w[i] += delta[i];
  }
}

DT_MULTI_ISA void adadelta(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  float *acc_g = state[0], *acc_delta = state[1];
  const float clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], clip);
    acc_g[i] = kAdadeltaRho * acc_g[i] + (1 - kAdadeltaRho) * h * h;
    const float delta = std::sqrt(acc_delta[i] + kAdadeltaEpsilon) / std::sqrt(acc_g[i] + kAdadeltaEpsilon) * h;
    acc_delta[i] = kAdadeltaRho * acc_delta[i] + (1 - kAdadeltaRho) * delta * delta;
    w[i] -= delta + s.weight_decay * w[i];
  }
}

// Divides by the rate, so a rate of 0, with which a schedule may begin or end, changes nothing.
DT_MULTI_ISA void ftrl(const Scalars& s, size_t n, float* w, const float* g, float* const* state) {
  if (s.learning_rate == 0) return;
  float *z = state[0], *sum_sq = state[1];
  const float clip = clip_of(s);
  for (size_t i = 0; i < n; i++) {
    const float h = cut(s.gradient_scale * g[i], clip);
    const float root = std::sqrt(sum_sq[i] + h * h);
    z[i] += h - (root - std::sqrt(sum_sq[i])) * w[i] / s.learning_rate;
    sum_sq[i] += h * h;
    const float pull = (z[i] > 0 ? kFtrlLambda1 : -kFtrlLambda1) - z[i];
    const float hold = (kFtrlBeta + root) / s.learning_rate + s.weight_decay;
    w[i] = std::abs(z[i]) <= kFtrlLambda1 ? 0 : pull / hold;
  }
}

}  // namespace

std::vector<Rule> adaptive_rules() {
  return {
      {"adam", {"mean", "var"}, false, adam, true},
      {"adam@v0.7", {"mean", "var"}, false, adam_of_v07, true},
      {"adamax", {"mean", "max"}, false, adamax, true},
      {"adagrad", {"sum_sq"}, false, adagrad},
      {"rmsprop", {"n"}, false, rmsprop},
      {"rmsprop@v0.7", {"n", "g", "delta"}, false, rmsprop_of_v07},
      {"adadelta", {"acc_g", "acc_delta"}, false, adadelta},
      {"ftrl", {"z", "n"}, false, ftrl},
  };
}

}  // namespace dtrain::optim
