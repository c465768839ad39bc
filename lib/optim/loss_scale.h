// How the loss scale of float16 changes from step to step. The host's code and the GPU's kernel are compiled from this
// source. docs/arithmetic.md, "Loss scaling", describes the rule.
#pragma once

#include <cstdint>

#include "optim/noise.h"

namespace dtrain::optim {

// Scales are powers of two unless the user gives another number, so that dividing by them is exact.
struct LossScaleState {
  double scale = 0;        // the loss scale; 0: there is no state
  int64_t good_steps = 0;  // number of good steps since the scale last changed
  bool operator==(const LossScaleState&) const = default;
};

struct LossScaleRule {
  int64_t growth_steps = 2000;
  double max = 1 << 24;
};

// The state after a step. `good`: all gradients of the step were finite. Source: Micikevicius et al., "Mixed precision
// training", arXiv:1710.03740.
DT_ELEMENT LossScaleState next_loss_scale(const LossScaleRule& rule, LossScaleState state, bool good) {
  if (!good) return {state.scale / 2 < 1 ? 1 : state.scale / 2, 0};
  if (state.good_steps + 1 < rule.growth_steps) return {state.scale, state.good_steps + 1};
  return {state.scale * 2 > rule.max ? rule.max : state.scale * 2, 0};
}

}  // namespace dtrain::optim
