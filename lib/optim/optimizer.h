// Optimizers: functions over spans, used by workers and by the shards of servers alike. See docs/arithmetic.md,
// "Optimizers".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "optim/norms.h"
#include "tensor/parameters.h"

namespace dtrain::optim {

// An optimizer as plain data. Part of the JobSpec.
struct OptimizerSpec {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double clip_gradient = 0;  // elements of the scaled gradient are clipped to [-clip, clip]; 0: off
  // The rule's own parameters that are not MXNet's defaults, by name.
  std::map<std::string, double> parameters = {};
  uint64_t seed = 0;  // of the noise of sgld
};
// Sets the name and the parameters by a text such as "rmsprop(centered=1,gamma1=0.95)". Code::kUsage for an unknown
// rule or parameter, with a list of the known ones, and for a value that is not a number.
Result<OptimizerSpec> parse_optimizer(std::string_view text, OptimizerSpec spec = {});

// Factors by which a parameter's learning rate and weight decay differ from the job's.
struct Multipliers {
  double learning_rate = 1;
  double weight_decay = 1;
  bool adapts = true;  // whether a rule that uses norms scales this parameter's rate
};
// A parameter's multipliers: those of its network's rule. By default only weights and gammas decay; with lars, only
// weights, and only their rates are scaled.
Multipliers multipliers_of(ParameterKind kind, const ParameterRule& rule = {}, const OptimizerSpec& spec = {});

// All optimizers, in the order of docs/arithmetic.md.
std::vector<std::string> optimizer_names();
// Whether OptimizerSpec::momentum means something to the optimizer.
bool takes_momentum(const OptimizerSpec& spec);
// Whether UpdateStep::updates means something to it, so that a state of zeros must begin with the first update.
bool counts_updates(const OptimizerSpec& spec);

// Whether the rule needs the norms of whole arrays, so that parts of an array cannot be updated on their own.
bool uses_norms(const OptimizerSpec& spec);

// How many gradients add up, in the last slot of the state, before they change the weights: lbsgd's batch_scale. 0: the
// rule keeps no sum.
uint64_t accumulated_updates(const OptimizerSpec& spec);
// Whether the update with this number changes the weights. False: it only adds its gradient.
bool applies(const OptimizerSpec& spec, uint64_t update);

// The names of the state arrays that a rule keeps for each parameter, each with the parameter's shape and 0 at first:
// {"mom"} for sgd with momentum, {} without, {"mean", "var"} for adam. Code::kUsage for an unknown rule, with a list of
// the known ones.
Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec);

// Which elements of the network's learned arrays are updated: those of one array from `begin` on.
struct ArrayPart {
  uint64_t array = 0;  // position in canonical order
  uint64_t begin = 0;
};

struct UpdateStep {
  double learning_rate = 0;   // from the schedule, before the multiplier
  double gradient_scale = 1;  // 1 / samples that contributed, times the scheme's weight
  Multipliers multipliers = {};
  uint64_t updates = 1;             // of the array since the start of the job, this one included
  ArrayPart part = {};              // only means something to rules with noise
  double rate_change = 1;           // the rate of the schedule divided by that of the update before
  std::optional<Norms> norms = {};  // of the array, for a rule that uses them
};

// Updates the weights w with the gradient g, elementwise. `state` holds the slots in the order of state_slots, each of
// w's size. Elements do not depend on each other, so any slice of a parameter may be updated on its own, if a rule
// that uses norms is given those of the whole array.
// docs/arithmetic.md, "Optimizers", has the formulas; for example
//   g' = clip(gradient_scale * g)
//   sgd, momentum 0:  w <- (1 - lr wd) w - lr g'
//   sgd, momentum m:  v <- m v - lr (g' + wd w);  w <- w + v
//   nag, momentum m:  w <- w - m v + (m + 1) (m v - lr (g' + wd w));  v <- m v - lr (g' + wd w), with the new w;
//                     momentum 0: as sgd
// The arithmetic is float32, with each scalar rounded to float32 once.
void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state);

}  // namespace dtrain::optim
