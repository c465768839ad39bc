#include <cmath>

#include "base/simd.h"
#include "optim/rules.h"

namespace dtrain::optim {
namespace {

DT_MULTI_ISA void adam(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *var = state[1];
  for (size_t i = 0; i < n; i++) formula::adam(s, s.gradient_scale * g[i], w[i], mean[i], var[i]);
}

DT_MULTI_ISA void adam_of_v07(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *var = state[1];
  for (size_t i = 0; i < n; i++) formula::adam_of_v07(s, s.gradient_scale * g[i], w[i], mean[i], var[i]);
}

DT_MULTI_ISA void adamax(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *mean = state[0], *max = state[1];
  for (size_t i = 0; i < n; i++) formula::adamax(s, s.gradient_scale * g[i], w[i], mean[i], max[i]);
}

DT_MULTI_ISA void adagrad(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float* sum_sq = state[0];
  for (size_t i = 0; i < n; i++) formula::adagrad(s, s.gradient_scale * g[i], w[i], sum_sq[i]);
}

DT_MULTI_ISA void rmsprop(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float* mean_sq = state[0];
  for (size_t i = 0; i < n; i++) formula::rmsprop(s, s.gradient_scale * g[i], w[i], mean_sq[i]);
}

DT_MULTI_ISA void centered_rmsprop(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *mean_sq = state[0], *mean = state[1], *delta = state[2];
  for (size_t i = 0; i < n; i++) {
    formula::centered_rmsprop(s, s.gradient_scale * g[i], w[i], mean_sq[i], mean[i], delta[i]);
  }
}

DT_MULTI_ISA void rmsprop_of_v07(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *mean_sq = state[0], *mean = state[1], *delta = state[2];
  for (size_t i = 0; i < n; i++) {
    formula::rmsprop_of_v07(s, s.gradient_scale * g[i], w[i], mean_sq[i], mean[i], delta[i]);
  }
}

DT_MULTI_ISA void adadelta(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  float *acc_g = state[0], *acc_delta = state[1];
  for (size_t i = 0; i < n; i++) formula::adadelta(s, s.gradient_scale * g[i], w[i], acc_g[i], acc_delta[i]);
}

// The formula divides by the rate, so if the rate is 0, with which a schedule may begin or end, the weights do not
// change.
DT_MULTI_ISA void ftrl(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  if (s.learning_rate == 0) return;
  float *z = state[0], *sum_sq = state[1];
  for (size_t i = 0; i < n; i++) formula::ftrl(s, s.gradient_scale * g[i], w[i], z[i], sum_sq[i]);
}

Correction adam_correction(const Parameters& parameters, uint64_t update) {
  const auto t = static_cast<double>(update);
  return {.numerator = std::sqrt(1 - std::pow(parameters[1], t)), .denominator = 1 - std::pow(parameters[0], t)};
}

Correction adamax_correction(const Parameters& parameters, uint64_t update) {
  return {.denominator = 1 - std::pow(parameters[0], static_cast<double>(update))};
}

}  // namespace

std::vector<Rule> adaptive_rules() {
  constexpr Rule::Momentum kNone = Rule::Momentum::kNone;
  const RuleParameter beta1{"beta1", 0.9}, beta2{"beta2", 0.999}, epsilon{"epsilon", 1e-8};
  const std::vector<RuleParameter> of_rmsprop = {
      {"gamma1", 0.9}, {"gamma2", 0.9}, epsilon, {"clip_weights", 0}, {"centered", 0}};
  const std::vector<RuleParameter> of_old_rmsprop = {{"gamma1", 0.95}, {"gamma2", 0.9}, {"epsilon", 1e-4}};
  return {
      {"adam", {"mean", "var"}, kNone, adam, {beta1, beta2, epsilon}, adam_correction},
      {"adam@v0.7", {"mean", "var"}, kNone, adam_of_v07, {beta1, beta2, epsilon}, adam_correction},
      {"adamax", {"mean", "max"}, kNone, adamax, {beta1, beta2}, adamax_correction},
      {"adagrad", {"sum_sq"}, kNone, adagrad, {{"eps", 1e-7}}},
      {"rmsprop", {"n"}, kNone, rmsprop, of_rmsprop},
      {"rmsprop(centered)", {"n", "g", "delta"}, kNone, centered_rmsprop, of_rmsprop},
      {"rmsprop@v0.7", {"n", "g", "delta"}, kNone, rmsprop_of_v07, of_old_rmsprop},
      {"adadelta", {"acc_g", "acc_delta"}, kNone, adadelta, {{"rho", 0.9}, {"epsilon", 1e-5}}},
      {"ftrl", {"z", "n"}, kNone, ftrl, {{"lamda1", 0.01}, {"beta", 1}}},
  };
}

}  // namespace dtrain::optim
