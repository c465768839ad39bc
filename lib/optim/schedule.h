// The learning rate as a function of progress in epochs, so that a schedule has the same effect in every scheme. See
// docs/arithmetic.md, "Learning-rate schedules".
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::optim {

// Plain data, part of the JobSpec. Set by --lr, --lr-factor, --lr-step-epochs, --lr-factor-epoch, --lr-scheduler and
// --lr-warmup-epochs.
struct ScheduleSpec {
  enum class Kind { kSteps, kPoly, kCosine };
  double base = 0.1;
  double factor = 1;  // for kSteps: the factor of each change; if it is at least 1, the rate is constant
  std::vector<double> step_epochs = {};  // the rate is multiplied by `factor` when progress passes each of these
  // If above 0: the rate is multiplied by `factor` after each period of this many epochs, but not below 1e-8.
  // step_epochs must be empty.
  double every_epochs = 0;
  Kind kind = Kind::kSteps;
  double power = 2;          // for kPoly: the exponent
  double end_epochs = 0;     // for kPoly and kCosine: the epoch from which on the rate is 0; above warmup_epochs
  double warmup_epochs = 0;  // until this epoch the rate rises linearly from warmup_begin to `base`
  double warmup_begin = 0;

  // For lbsgd: the rate is multiplied by a factor that rises from 1 to `scale` until `warmup_epochs`. Set by
  // --macrobatch-size, --warmup-epochs and --warmup-strategy.
  struct LargeBatch {
    enum class Rise { kLinear, kSquare, kSquareRoot, kAtOnce };
    double scale = 1;
    double warmup_epochs = 0;
    Rise rise = Rise::kLinear;
  };
  LargeBatch large_batch = {};
};

// The number of epochs, possibly a fraction, in which the rate may rise at the beginning.
double rising_epochs(const ScheduleSpec& spec);

// The rate of the update that brings the progress to `epochs` = (samples applied, including this update's) / (samples
// per epoch). A step at epoch 30 applies to epochs > 30: the update that completes epoch 30 still has the old rate.
double learning_rate(const ScheduleSpec& spec, double epochs);

}  // namespace dtrain::optim
