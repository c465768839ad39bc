// The learning rate as a function of epoch progress, so that it means the same in every scheme (R-D9).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::optim {

// Plain data, part of the JobSpec. flags.md section 9: --lr, --lr-factor, --lr-step-epochs, --lr-factor-epoch.
struct ScheduleSpec {
  double base = 0.1;
  double factor = 1;                     // >= 1: constant
  std::vector<double> step_epochs = {};  // multiply by `factor` once past each of these
  // > 0: multiply by `factor` for every so many epochs gone by, down to 1e-8; then step_epochs is empty.
  double every_epochs = 0;
};

// The rate of the update that brings the progress to `epochs` = (samples applied, this update's included) / (samples of
// an epoch). A step at epoch 30 holds for epochs > 30: the update that ends epoch 30 still has the old rate.
double learning_rate(const ScheduleSpec& spec, double epochs);

}  // namespace dtrain::optim
