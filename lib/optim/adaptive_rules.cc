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

// The formula divides by the rate, so a rate of 0, with which a schedule may begin or end, changes nothing.
DT_MULTI_ISA void ftrl(Scalars s, size_t n, float* w, const float* g, float* const* state) {
  if (s.learning_rate == 0) return;
  float *z = state[0], *sum_sq = state[1];
  for (size_t i = 0; i < n; i++) formula::ftrl(s, s.gradient_scale * g[i], w[i], z[i], sum_sq[i]);
}

constexpr double kBeta1 = 0.9, kBeta2 = 0.999;

Correction adam_correction(uint64_t update) {
  const auto t = static_cast<double>(update);
  return {.numerator = std::sqrt(1 - std::pow(kBeta2, t)), .denominator = 1 - std::pow(kBeta1, t)};
}

Correction adamax_correction(uint64_t update) {
  return {.denominator = 1 - std::pow(kBeta1, static_cast<double>(update))};
}

}  // namespace

// The parameters are those that MXNet's scripts use; they have no flags there either.
std::vector<Rule> adaptive_rules() {
  const std::vector<RuleParameter> of_adam = {{"beta1", kBeta1}, {"beta2", kBeta2}, {"epsilon", 1e-8}};
  return {
      {"adam", {"mean", "var"}, false, adam, of_adam, adam_correction},
      {"adam@v0.7", {"mean", "var"}, false, adam_of_v07, of_adam, adam_correction},
      {"adamax", {"mean", "max"}, false, adamax, {{"beta1", kBeta1}, {"beta2", kBeta2}}, adamax_correction},
      {"adagrad", {"sum_sq"}, false, adagrad, {{"eps", 1e-7}}},
      {"rmsprop", {"n"}, false, rmsprop, {{"gamma1", 0.9}, {"epsilon", 1e-8}}},
      {"rmsprop@v0.7",
       {"n", "g", "delta"},
       false,
       rmsprop_of_v07,
       {{"gamma1", 0.95}, {"gamma2", 0.9}, {"epsilon", 1e-4}}},
      {"adadelta", {"acc_g", "acc_delta"}, false, adadelta, {{"rho", 0.9}, {"epsilon", 1e-5}}},
      {"ftrl", {"z", "n"}, false, ftrl, {{"lamda1", 0.01}, {"beta", 1}}},
  };
}

}  // namespace dtrain::optim
