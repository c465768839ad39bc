// Optimizers as functions over spans, used both by workers and by the shards of servers. See docs/arithmetic.md,
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
  // The rule's own parameters that differ from MXNet's defaults, indexed by name.
  std::map<std::string, double> parameters = {};
  uint64_t seed = 0;  // seed of sgld's noise
};
// Sets the name and the parameters from a text such as "rmsprop(centered=1,gamma1=0.95)". Code::kUsage for an unknown
// rule or parameter, with a list of the known ones, and for a value that is not a number.
Result<OptimizerSpec> parse_optimizer(std::string_view text, OptimizerSpec spec = {});

// Factors by which a parameter's learning rate and weight decay differ from the job's.
struct Multipliers {
  double learning_rate = 1;
  double weight_decay = 1;
  bool adapts = true;  // whether a rule that uses norms scales this parameter's rate
};
// A parameter's multipliers, from its network's rule. By default only weights and gammas decay. With lars, only weights
// decay, and only their rates are scaled.
Multipliers multipliers_of(ParameterKind kind, const ParameterRule& rule = {}, const OptimizerSpec& spec = {});

// All optimizers, in the order of docs/arithmetic.md.
std::vector<std::string> optimizer_names();
// Whether the optimizer uses OptimizerSpec::momentum.
bool takes_momentum(const OptimizerSpec& spec);
// Whether the optimizer uses UpdateStep::updates. A state of zeros is then valid only before the first update.
bool counts_updates(const OptimizerSpec& spec);

// Whether the rule needs the norms of whole arrays, so that parts of an array cannot be updated on their own.
bool uses_norms(const OptimizerSpec& spec);

// The number of gradients that are summed in the last slot of the state before they change the weights: batch_scale of
// lbsgd. 0 if the rule keeps no sum.
uint64_t accumulated_updates(const OptimizerSpec& spec);
// Whether the update with this number changes the weights. If not, it only adds its gradient to the sum.
bool applies(const OptimizerSpec& spec, uint64_t update);

// The names of the state arrays that a rule keeps for each parameter, each of the parameter's shape and initially 0:
// {"mom"} for sgd with momentum, {} without, {"mean", "var"} for adam. Code::kUsage for an unknown rule, with a list of
// the known ones.
Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec);

// The elements that are updated: those of one learned array of the network, from `begin` on.
struct ArrayPart {
  uint64_t array = 0;  // position of the array in canonical order
  uint64_t begin = 0;
};

struct UpdateStep {
  double learning_rate = 0;   // the schedule's rate, before the multiplier
  double gradient_scale = 1;  // 1 / (samples that contributed), times the weight that the scheme gives the update
  Multipliers multipliers = {};
  uint64_t updates = 1;             // updates of the array since the start of the job, including this one
  ArrayPart part = {};              // used only by rules with noise
  double rate_change = 1;           // the schedule's rate divided by that of the previous update
  std::optional<Norms> norms = {};  // norms of the array, for a rule that uses them
};

// Updates the weights w with the gradient g, element by element. `state` contains the slots in the order of
// state_slots, each with the size of w. Elements do not depend on each other, so any slice of a parameter may be
// updated on its own; but a rule that uses norms needs the norms of the whole array.
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
