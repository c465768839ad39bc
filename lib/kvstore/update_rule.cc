#include "kvstore/update_rule.h"

#include <algorithm>

namespace dtrain::kvstore {

optim::UpdateStep update_step(const UpdateRule& rule, const optim::Multipliers& multipliers, uint64_t samples_before,
                              uint64_t contributed, double weight) {
  const double epochs = static_cast<double>(samples_before + contributed) /
                        static_cast<double>(std::max<uint64_t>(rule.samples_per_epoch, 1));
  // A push may come without samples (a peer's word), its gradient is then taken as it is.
  const auto samples = static_cast<double>(std::max<uint64_t>(contributed, 1));
  return {.learning_rate = optim::learning_rate(rule.schedule, epochs),
          .gradient_scale = weight / samples,
          .multipliers = multipliers};
}

}  // namespace dtrain::kvstore
