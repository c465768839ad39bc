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

// What an update of the scheme is worth by its staleness Y, 1 and up (R-G3, distributed.md 2.1).
struct StalenessWeight {
  enum class Rule { kNone, kPower, kFloor };  // 1; Y^-value; 1/Y, but `value` at least
  Rule rule = Rule::kNone;
  double value = 1;
  bool operator==(const StalenessWeight&) const = default;
};
double weight_of(const StalenessWeight& weight, uint64_t staleness);

// One update: `contributed` samples are in the gradient, `samples_before` were applied before it. `weight` is the
// scheme's (1, or 1/staleness) and scales the gradient only.
optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, uint64_t samples_before,
                              uint64_t contributed, double weight = 1);

}  // namespace dtrain::kvstore
