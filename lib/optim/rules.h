// The rules of all optimizers: the state and the parameters of each, and the loop that applies it. Used by
// optim/optimizer.cc and cuda/optimizer.cc; other directories use optim/optimizer.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "optim/formulas.h"
#include "optim/optimizer.h"

namespace dtrain::optim {

// Updates n weights. `state` has a pointer to n values for each slot of the rule. The scalars are passed by value, so
// that the compiler knows that writing a weight does not change them.
using Loop = void (*)(Scalars scalars, size_t n, float* weight, const float* gradient, float* const* state);

struct RuleParameter {
  std::string_view name;
  double value;  // default value
};

using Parameters = std::array<double, kParametersMax>;  // in the order of Rule::parameters

struct Rule {
  std::string_view name;
  std::vector<std::string_view> slots;
  enum class Momentum { kNone, kOptional, kAlways };
  // Whether the rule uses --mom. kOptional: it does, and it has no slots if --mom is 0. kAlways: it does, and it always
  // has its slots.
  Momentum momentum;
  Loop loop;
  std::vector<RuleParameter> parameters = {};
  // Returns the correction of the learning rate for the update with this number. It compensates for a state that began
  // at 0. Null if the rule needs none.
  Correction (*correction)(const Parameters& parameters, uint64_t update) = nullptr;
  // Returns the factor for the rate of an array with these norms. Null if the rule uses no norms.
  double (*rate_by_norms)(const double* parameters, const Norms& norms, double gradient_scale,
                          double weight_decay) = nullptr;
  bool scales_weights_only = false;  // whether rate_by_norms applies only to weights, and only weights decay
  bool corrects_momentum = false;    // whether the momentum is multiplied by UpdateStep::rate_change
  // Whether the first parameter is a number of updates whose gradients are summed in the last slot before they change
  // the weights.
  bool accumulates = false;
};

// The rules that use more than the gradient and a momentum.
std::vector<Rule> adaptive_rules();

// The name of the optimizer's row in the table of rules: the name in the spec, or "rmsprop(centered)" or "lbsgd(lars)".
std::string_view rule_name(const OptimizerSpec& spec);
// The correction for the update with this number.
Correction rate_correction(const OptimizerSpec& spec, uint64_t update);
// The factor on the momentum in an update whose rate is `rate_change` times that of the previous update.
double momentum_factor(const OptimizerSpec& spec, double rate_change);
// The parameters in the spec, and default values for the others.
Parameters rule_parameters(const OptimizerSpec& spec);
// The noise key of all arrays in the update with this number. Mixed with an array's number, it is Scalars::noise_key.
uint64_t noise_of_update(const OptimizerSpec& spec, uint64_t update);
// All scalars of an update. On a device, the scalars that change from step to step are in its memory.
Scalars scalars_of(const OptimizerSpec& spec, const UpdateStep& step);

}  // namespace dtrain::optim
