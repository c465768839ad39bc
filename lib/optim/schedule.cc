#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace dtrain::optim {
namespace {

// Progress is a quotient of whole numbers. With rounding, a boundary that is just reached may look passed.
constexpr double kTolerance = 1e-9;
// stop_factor_lr of MXNet's FactorScheduler. Its MultiFactorScheduler, with steps at given epochs, has no lower limit.
constexpr double kFloor = 1e-8;

double steps_passed(const ScheduleSpec& spec, double epochs) {
  if (spec.every_epochs > 0) return std::max(0.0, std::ceil(epochs / spec.every_epochs - kTolerance) - 1);
  return static_cast<double>(std::count_if(spec.step_epochs.begin(), spec.step_epochs.end(),
                                           [&](double step) { return epochs > step + kTolerance; }));
}

}  // namespace

// A base below kFloor stays as it is: no schedule raises the rate.
double learning_rate(const ScheduleSpec& spec, double epochs) {
  if (spec.factor >= 1) return spec.base;
  const double rate = spec.base * std::pow(spec.factor, steps_passed(spec, epochs));
  return spec.every_epochs > 0 ? std::max(rate, std::min(spec.base, kFloor)) : rate;
}

}  // namespace dtrain::optim
