// Optimisers: functions over spans, the same code in a worker and in a server's shard. models.md section 4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/parameters.h"

namespace dtrain::optim {

// An optimiser as plain data: part of the JobSpec, sent once (R-D6).
struct OptimizerSpec {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double clip_gradient = 0;  // elements of the scaled gradient are cut to [-clip, clip]; 0: off
};

// Of the job's rate and decay.
struct Multipliers {
  double learning_rate = 1;
  double weight_decay = 1;
};
// What the name of a parameter decides, weight decay only for *_weight and *_gamma, where its network does not say
// otherwise (models.md 4.1).
Multipliers multipliers_of(std::string_view parameter, const ParameterRule& rule = {});

// The names of the arrays of state that a rule keeps per parameter, each of the parameter's shape: {"mom"} for sgd and
// nag with momentum, {} without. Code::kUsage for an unknown rule, with the list of those that exist.
Result<std::vector<std::string>> state_slots(const OptimizerSpec& spec);

struct UpdateStep {
  double learning_rate = 0;   // of the schedule, before the multiplier
  double gradient_scale = 1;  // 1 / samples that contributed, times the scheme's weight (R-D10)
  Multipliers multipliers = {};
};

// w <- the rule's update of w with gradient g, elementwise; `state` holds the slots in the order of state_slots, of w's
// size. Elements do not depend on each other: any slice of a parameter may be updated on its own.
//   g' = clip(gradient_scale * g)
//   sgd, momentum 0:  w <- (1 - lr wd) w - lr g'
//   sgd, momentum m:  v <- m v - lr (g' + wd w);  w <- w + v
//   nag, momentum m:  h = g' + wd w;  v <- m v + h;  w <- w - lr (h + m v);  momentum 0: sgd's
// Source: models.md 4.3. float32 arithmetic with the scalars rounded to float32 once.
void update(const OptimizerSpec& spec, const UpdateStep& step, std::span<float> w, std::span<const float> g,
            std::span<const std::span<float>> state);

}  // namespace dtrain::optim
