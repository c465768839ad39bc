#include "train/loss_scale.h"

#include <algorithm>

#include "job/flags/flags.h"
#include "job/flags/value.h"

namespace dtrain::train {
namespace {

constexpr double kFirst = 1 << 15;
constexpr int kGoodStepsToDouble = 2000;

}  // namespace

Result<LossScale> LossScale::parse(std::string_view text) {
  LossScale scale;
  if (text == "none") return scale;
  scale.dynamic_ = text == "dynamic";
  scale.value_ = kFirst;
  if (!scale.dynamic_) DT_TRY_VOID(job::parse_value(text, scale.value_), "reading --loss-scale");
  return scale;
}

void LossScale::restore(const State& state) {
  if (!dynamic_ || state.scale == 0) return;
  value_ = std::clamp(state.scale, 1.0, job::kLossScaleMax);
  good_steps_ = state.good_steps;
}

void LossScale::good_step() {
  if (!dynamic_ || ++good_steps_ < kGoodStepsToDouble) return;
  good_steps_ = 0;
  value_ = std::min(2 * value_, job::kLossScaleMax);
}

bool LossScale::lower() {
  if (!dynamic_) return false;
  good_steps_ = 0;
  if (value_ <= 1) return false;
  value_ /= 2;
  return true;
}

}  // namespace dtrain::train
