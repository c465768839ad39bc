#include "train/loss_scale.h"

#include <algorithm>
#include <bit>

#include "job/flags/flags.h"
#include "job/flags/value.h"

namespace dtrain::train {

// A usual first scale for a loss that is a mean over the batch. parse() divides it by the batch size, because the
// gradients here are sums.
constexpr uint64_t kFirst = 1 << 16;

static_assert(optim::LossScaleRule{}.max == job::kLossScaleMax);

Result<LossScale> LossScale::parse(std::string_view text, int64_t batch) {
  LossScale scale;
  if (text == "none") return scale;
  scale.dynamic_ = text == "dynamic";
  const uint64_t first = kFirst / std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(batch, 1)));
  scale.state_.scale = static_cast<double>(std::max<uint64_t>(first, 1));
  if (!scale.dynamic_) DT_TRY_VOID(job::parse_value(text, scale.state_.scale), "reading --loss-scale");
  return scale;
}

void LossScale::restore(const State& state) {
  if (!dynamic_ || state.scale == 0) return;
  state_ = {std::clamp(state.scale, 1.0, job::kLossScaleMax), state.good_steps};
}

}  // namespace dtrain::train
