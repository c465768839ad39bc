// How every store turns a sum of gradients into new weights. Servers and a lone process share this formula, so their
// results are equal bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvstore/counters.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace dtrain::kvstore {

struct UpdateRule {
  optim::OptimizerSpec optimizer = {};
  optim::ScheduleSpec schedule = {};
  uint64_t samples_per_epoch = 1;  // of all workers together
};

// The weight of an update by its staleness Y, 1 or more. See docs/protocol.md, "Schemes".
struct StalenessWeight {
  enum class Rule { kNone, kPower, kFloor };  // 1; Y^-value; max(1/Y, value)
  Rule rule = Rule::kNone;
  double value = 1;
  bool operator==(const StalenessWeight&) const = default;
};
double weight_of(const StalenessWeight& weight, uint64_t staleness);

// The parameters of one update. `contributed` samples, at least 1, are in the gradient; `before` is what was applied
// before it.
// `weight` is weight_of() and scales only the gradient, not the learning rate.
optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, const Counters& before,
                              uint64_t contributed, double weight = 1);

}  // namespace dtrain::kvstore
