// How every store turns a sum of gradients into new weights: one formula, so that a server and a lone process agree to
// the bit. distributed.md R-D9, R-D10.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace dtrain::kvstore {

struct UpdateRule {
  optim::OptimizerSpec optimizer = {};
  optim::ScheduleSpec schedule = {};
  uint64_t samples_per_epoch = 1;  // of all workers together
};

// One update: `contributed` samples are in the gradient, `samples_before` were applied before it. `weight` is the
// scheme's (1, or 1/staleness) and scales the gradient only.
optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, uint64_t samples_before,
                              uint64_t contributed, double weight = 1);

}  // namespace dtrain::kvstore
