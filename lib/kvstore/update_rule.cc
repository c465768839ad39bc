#include "kvstore/update_rule.h"

#include <algorithm>
#include <cmath>

namespace dtrain::kvstore {

double weight_of(const StalenessWeight& weight, uint64_t staleness) {
  const auto y = static_cast<double>(staleness);
  switch (weight.rule) {
    case StalenessWeight::Rule::kNone: return 1;
    // 1/Y is a single, correctly rounded division; pow may be off by one bit.
    case StalenessWeight::Rule::kPower: return weight.value == 1 ? 1 / y : std::pow(y, -weight.value);
    case StalenessWeight::Rule::kFloor: return std::max(1 / y, weight.value);
  }
  return 1;
}

optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, const Counters& before,
                              uint64_t contributed, double weight) {
  const auto samples_per_epoch = static_cast<double>(std::max<uint64_t>(rule.samples_per_epoch, 1));
  const auto rate_after = [&](uint64_t samples) {
    return optim::learning_rate(rule.schedule, static_cast<double>(samples) / samples_per_epoch);
  };
  const double rate = rate_after(before.samples + contributed), last = rate_after(before.samples);
  return {.learning_rate = rate * before.rate_factor,
          .gradient_scale = weight / static_cast<double>(contributed),
          .multipliers = multipliers,
          .updates = before.updates + 1,
          .rate_change = before.updates == 0 || last == 0 ? 1 : rate / last};
}

}  // namespace dtrain::kvstore
