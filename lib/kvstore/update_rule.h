// How every store turns a sum of gradients into new weights. Servers and a process that trains alone share this
// formula, so their results are equal bit for bit.
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
  uint64_t samples_per_epoch = 1;  // samples of all workers together
};

// The weight of an update as a function of its staleness Y, which is at least 1. See docs/protocol.md, "Schemes".
struct StalenessWeight {
  enum class Rule { kNone, kPower, kFloor };  // kNone: 1; kPower: Y^-value; kFloor: max(1/Y, value)
  Rule rule = Rule::kNone;
  double value = 1;
  bool operator==(const StalenessWeight&) const = default;
};
double weight_of(const StalenessWeight& weight, uint64_t staleness);

// The parameters of one update. `contributed`: samples in the gradient, at least 1. `before`: the counters before the
// update. `weight`: the result of weight_of(), which scales only the gradient, not the learning rate.
optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, const Counters& before,
                              uint64_t contributed, double weight = 1);

}  // namespace dtrain::kvstore
