#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtrain::optim {
namespace {

// The tolerance in comparisons of the progress with an epoch: progress is a quotient of integers, and because of
// rounding it may seem to have passed an epoch that it has just reached.
constexpr double kTolerance = 1e-9;
// The lower limit of the rate, as stop_factor_lr of MXNet's FactorScheduler. MXNet's MultiFactorScheduler, with steps
// at given epochs, has no lower limit.
constexpr double kFloor = 1e-8;

double steps_passed(const ScheduleSpec& spec, double epochs) {
  if (spec.every_epochs > 0) return std::max(0.0, std::ceil(epochs / spec.every_epochs - kTolerance) - 1);
  return static_cast<double>(std::count_if(spec.step_epochs.begin(), spec.step_epochs.end(),
                                           [&](double step) { return epochs > step + kTolerance; }));
}

// The rate of a kSteps schedule. If `base` is below kFloor, the rate stays at `base`, because the floor must not raise
// it.
double rate_by_steps(const ScheduleSpec& spec, double epochs) {
  if (spec.factor >= 1) return spec.base;
  const double rate = spec.base * std::pow(spec.factor, steps_passed(spec, epochs));
  return spec.every_epochs > 0 ? std::max(rate, std::min(spec.base, kFloor)) : rate;
}

// The remaining fraction of the way from the end of the warm-up to the end of the schedule, from 1 to 0.
double part_left(const ScheduleSpec& spec, double epochs) {
  return 1 - std::min(1.0, (epochs - spec.warmup_epochs) / (spec.end_epochs - spec.warmup_epochs));
}

double large_batch_factor(const ScheduleSpec::LargeBatch& batch, double epochs) {
  using Rise = ScheduleSpec::LargeBatch::Rise;
  if (epochs >= batch.warmup_epochs - kTolerance) return batch.scale;
  const double progress = epochs / batch.warmup_epochs, rest = batch.scale - 1;
  switch (batch.rise) {
    case Rise::kLinear: return 1 + rest * progress;
    case Rise::kSquare: return 1 + rest * progress * progress;
    case Rise::kSquareRoot: return 1 + rest * std::sqrt(progress);
    case Rise::kAtOnce: break;
  }
  return 1;
}

double rate_of_one_batch(const ScheduleSpec& spec, double epochs) {
  if (epochs < spec.warmup_epochs - kTolerance) {
    return spec.warmup_begin + (spec.base - spec.warmup_begin) * epochs / spec.warmup_epochs;
  }
  switch (spec.kind) {
    case ScheduleSpec::Kind::kPoly: return spec.base * std::pow(part_left(spec, epochs), spec.power);
    case ScheduleSpec::Kind::kCosine: return spec.base * (1 - std::cos(std::numbers::pi * part_left(spec, epochs))) / 2;
    case ScheduleSpec::Kind::kSteps: break;
  }
  return rate_by_steps(spec, epochs);
}

}  // namespace

double rising_epochs(const ScheduleSpec& spec) {
  return std::max(spec.warmup_epochs, spec.large_batch.scale > 1 ? spec.large_batch.warmup_epochs : 0);
}

double learning_rate(const ScheduleSpec& spec, double epochs) {
  return rate_of_one_batch(spec, epochs) * large_batch_factor(spec.large_batch, epochs);
}

}  // namespace dtrain::optim
