#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace dtrain::optim {
namespace {

// Progress is a quotient of whole numbers: a border that it reaches may look passed by the last bit.
constexpr double kTolerance = 1e-9;

double steps_passed(const ScheduleSpec& spec, double epochs) {
  if (spec.every_epochs > 0) return std::max(0.0, std::ceil(epochs / spec.every_epochs - kTolerance) - 1);
  return static_cast<double>(std::count_if(spec.step_epochs.begin(), spec.step_epochs.end(),
                                           [&](double step) { return epochs > step + kTolerance; }));
}

}  // namespace

double learning_rate(const ScheduleSpec& spec, double epochs) {
  if (spec.factor >= 1) return spec.base;
  return spec.base * std::pow(spec.factor, steps_passed(spec, epochs));
}

}  // namespace dtrain::optim
