// The formulas of all optimizers, each for one element of a parameter. The host's loops (optimizer.cc,
// adaptive_rules.cc) and the GPU kernels are compiled from this source, both without floating-point contraction, so
// they give the same bits. docs/arithmetic.md, "Optimizers", has the formulas in readable form.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "optim/noise.h"
#include "optim/norms.h"

namespace dtrain::optim {

constexpr size_t kSlotsMax = 3, kParametersMax = 5;

// A factor and a divisor for the learning rate of an update, applied in this order.
struct Correction {
  double numerator = 1, denominator = 1;
};

// The scalars of the formulas. Those that are used in the arithmetic are rounded to float32 once.
struct Scalars {
  float learning_rate;  // the schedule's rate, with the multiplier and the correction of the first updates
  float weight_decay;
  float momentum;
  float gradient_scale;
  float clip;                        // limit of the gradient's absolute value; infinity if there is no clipping
  float parameters[kParametersMax];  // parameters of the rule, in the order of Rule::parameters
  uint64_t noise_key;                // key of the array in this update, for rules with noise
  uint64_t begin;                    // position of the first element in its array, for rules with noise
  // Whether the gradient changes the weights; false: it is only added to a sum, for rules that accumulate gradients.
  bool applies;
};

// Returns g if it is within [-clip, clip], else the nearer end. A NaN remains a NaN, because both comparisons are
// false.
DT_ELEMENT float cut(float g, float clip) {
  return g > clip ? clip : (g < -clip ? -clip : g);
}

DT_ELEMENT float sign(float x) {
  return x > 0 ? 1.0F : (x < 0 ? -1.0F : x);
}

// The following functions return the factor by which the learning rate of an array with these norms is multiplied.
// `parameters` are those of the rule, in float64.
//
// Parameters: eta, eps. The rate does not change if all weights or all gradients of the array are zero.
DT_ELEMENT double lars_rate(const double* parameters, const Norms& norms, double gradient_scale, double weight_decay) {
  const double gradient = gradient_scale * norms.gradient;
  if (!(norms.weight > 0 && gradient > 0)) return 1;
  return parameters[0] * norms.weight / (gradient + weight_decay * norms.weight + parameters[1]);
}

// The factor as in MXNet's LBSGD.
DT_ELEMENT double lbsgd_rate(const double*, const Norms& norms, double, double weight_decay) {
  const double weight = norms.weight * norms.weight, gradient = norms.gradient * norms.gradient;
  const double rate = std::sqrt(weight / (gradient + weight_decay * weight + 1e-18));
  return rate < 0.01 ? 0.01 : (rate > 100 ? 100 : rate);
}

}  // namespace dtrain::optim

// In these functions, g is the scaled gradient. The arguments after w are the slots of the rule.
namespace dtrain::optim::formula {

// The gradient that is passed to the first six functions is already clipped. Most networks are trained with these
// rules, and their loops exist with and without clipping.

// Computes sgd and the two forms of nag, without momentum.
DT_ELEMENT void sgd_plain(const Scalars& s, float g, float& w) {
  w = (1 - s.learning_rate * s.weight_decay) * w - s.learning_rate * g;
}

DT_ELEMENT void sgd(const Scalars& s, float g, float& w, float& v) {
  v = s.momentum * v - s.learning_rate * (g + s.weight_decay * w);
  w += v;
}

// v includes the learning rate, as in sgd. The weight decay in v uses the new weight, as in MXNet, whose kernel reads
// the weight after it has written it.
DT_ELEMENT void nag(const Scalars& s, float g, float& w, float& v) {
  const float kept = s.momentum * v;
  w = w - kept + (s.momentum + 1) * (kept - s.learning_rate * (g + s.weight_decay * w));
  v = kept - s.learning_rate * (g + s.weight_decay * w);
}

DT_ELEMENT void nag_of_v07(const Scalars& s, float g, float& w, float& v) {
  const float h = g + s.weight_decay * w;
  v = s.momentum * v + h;
  w -= s.learning_rate * (h + s.momentum * v);
}

// `position`: the position of the element in its array.
DT_ELEMENT void sgld(const Scalars& s, float g, float& w, uint64_t position) {
  const float h = cut(g, s.clip), deviation = s.learning_rate > 0 ? std::sqrt(s.learning_rate) : 0;
  w -= s.learning_rate / 2 * (h + s.weight_decay * w);
  w += deviation * noise::normal_at(s.noise_key, position);
}

DT_ELEMENT void signum_plain(const Scalars& s, float g, float& w) {
  w = (1 - s.learning_rate * s.weight_decay) * w - s.learning_rate * sign(g);
}

// Parameter: wd_lh.
DT_ELEMENT void signum(const Scalars& s, float g, float& w, float& v) {
  const float rest = 1 - s.momentum;
  v = s.momentum * v - rest * s.weight_decay * w - rest * g;
  w = (1 - s.learning_rate * s.parameters[0]) * w + s.learning_rate * sign(v);
}

// Parameter: lamda. `delta` is the last change of the weight; the gradient may have been computed before it.
DT_ELEMENT void dcasgd(const Scalars& s, float g, float& w, float& v, float& delta) {
  const float h = cut(g, s.clip), before = w;
  v = s.momentum * v - s.learning_rate * (h + s.weight_decay * w + s.parameters[0] * h * h * delta);
  w += v;
  delta = w - before;
}

// Parameter: batch_scale, the number of gradients that are summed before they are applied.
DT_ELEMENT void lbsgd(const Scalars& s, float g, float& w, float& v, float& sum) {
  sum += g;
  if (!s.applies) return;
  sgd(s, cut(sum / s.parameters[0], s.clip), w, v);
  sum = 0;
}

// Parameters: beta1, beta2, epsilon.
DT_ELEMENT void adam(const Scalars& s, float g, float& w, float& mean, float& var) {
  const float beta1 = s.parameters[0], beta2 = s.parameters[1], epsilon = s.parameters[2];
  const float h = cut(g + s.weight_decay * w, s.clip);
  mean = beta1 * mean + (1 - beta1) * h;
  var = beta2 * var + (1 - beta2) * h * h;
  w -= s.learning_rate * mean / (std::sqrt(var) + epsilon);
}

DT_ELEMENT void adam_of_v07(const Scalars& s, float g, float& w, float& mean, float& var) {
  const float beta1 = s.parameters[0], beta2 = s.parameters[1], epsilon = s.parameters[2];
  const float h = cut(g, s.clip);
  mean = beta1 * mean + (1 - beta1) * h;
  var = beta2 * var + (1 - beta2) * h * h;
  const float stepped = w - s.learning_rate * mean / (std::sqrt(var) + epsilon);
  w = stepped - s.learning_rate * s.weight_decay * stepped;
}

// Parameters: beta1, beta2. If all gradients of a weight have been 0, its maximum is 0 and it does not change.
DT_ELEMENT void adamax(const Scalars& s, float g, float& w, float& mean, float& max) {
  const float beta1 = s.parameters[0], beta2 = s.parameters[1];
  const float h = cut(g + s.weight_decay * w, s.clip);
  const float kept = beta2 * max, size = std::fabs(h);
  mean = beta1 * mean + (1 - beta1) * h;
  max = kept > size ? kept : size;
  w -= max == 0 ? 0 : s.learning_rate * mean / max;
}

// Parameter: eps.
DT_ELEMENT void adagrad(const Scalars& s, float g, float& w, float& sum_sq) {
  const float h = cut(g, s.clip);
  sum_sq += h * h;
  w -= s.learning_rate * (h / std::sqrt(sum_sq + s.parameters[0]) + s.weight_decay * w);
}

// Clips w to [-limit, limit]; a limit of 0 means no limit.
DT_ELEMENT float limited(float w, float limit) {
  return limit > 0 ? cut(w, limit) : w;
}

// Parameters: gamma1, gamma2 (unused), epsilon, clip_weights.
DT_ELEMENT void rmsprop(const Scalars& s, float g, float& w, float& mean_sq) {
  const float gamma1 = s.parameters[0], epsilon = s.parameters[2];
  const float h = cut(g + s.weight_decay * w, s.clip);
  mean_sq = (1 - gamma1) * h * h + gamma1 * mean_sq;
  w = limited(w - s.learning_rate * (h / std::sqrt(mean_sq + epsilon)), s.parameters[3]);
}

// Parameters: gamma1, gamma2, epsilon, clip_weights. As in rmsprop_of_v07, rounding may make the variance negative.
DT_ELEMENT void centered_rmsprop(const Scalars& s, float g, float& w, float& mean_sq, float& mean, float& delta) {
  const float gamma1 = s.parameters[0], gamma2 = s.parameters[1], epsilon = s.parameters[2];
  const float h = cut(g + s.weight_decay * w, s.clip);
  mean_sq = (1 - gamma1) * h * h + gamma1 * mean_sq;
  mean = (1 - gamma1) * h + gamma1 * mean;
  const float variance = mean_sq - mean * mean;
  delta = gamma2 * delta - s.learning_rate * (h / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
  w = limited(w + delta, s.parameters[3]);
}

// Parameters: gamma1, gamma2, epsilon. Rounding may make the mean square smaller than the square of the mean, so the
// difference is compared with 0.
DT_ELEMENT void rmsprop_of_v07(const Scalars& s, float g, float& w, float& mean_sq, float& mean, float& delta) {
  const float gamma1 = s.parameters[0], gamma2 = s.parameters[1], epsilon = s.parameters[2];
  const float h = cut(g, s.clip);
  mean_sq = (1 - gamma1) * h * h + gamma1 * mean_sq;
  mean = (1 - gamma1) * h + gamma1 * mean;
  const float variance = mean_sq - mean * mean;
  const float root = std::sqrt((variance < 0 ? 0 : variance) + epsilon);
  delta = gamma2 * delta - s.learning_rate * (h / root + s.weight_decay * w);
  w += delta;
}

// Parameters: rho, epsilon.
DT_ELEMENT void adadelta(const Scalars& s, float g, float& w, float& acc_g, float& acc_delta) {
  const float rho = s.parameters[0], epsilon = s.parameters[1];
  const float h = cut(g, s.clip);
  acc_g = rho * acc_g + (1 - rho) * h * h;
  const float delta = std::sqrt(acc_delta + epsilon) / std::sqrt(acc_g + epsilon) * h;
  acc_delta = rho * acc_delta + (1 - rho) * delta * delta;
  w -= delta + s.weight_decay * w;
}

// Parameters: lamda1, beta. The learning rate must not be 0.
DT_ELEMENT void ftrl(const Scalars& s, float g, float& w, float& z, float& n) {
  const float lamda1 = s.parameters[0], beta = s.parameters[1];
  const float h = cut(g, s.clip);
  const float root = std::sqrt(n + h * h);
  z += h - (root - std::sqrt(n)) * w / s.learning_rate;
  n += h * h;
  const float pull = (z > 0 ? lamda1 : -lamda1) - z;
  const float hold = (beta + root) / s.learning_rate + s.weight_decay;
  w = std::fabs(z) <= lamda1 ? 0 : pull / hold;
}

}  // namespace dtrain::optim::formula
