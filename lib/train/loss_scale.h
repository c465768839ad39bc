// The factor by which the loss is multiplied in float16, so that gradients neither underflow nor overflow. See
// docs/arithmetic.md, "Loss scaling".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "optim/loss_scale.h"

namespace dtrain::train {

// The loss scale of one worker. Each worker has its own, because gradients are divided by it before they leave the
// worker. Checkpoints keep the scales of all workers.
class LossScale {
 public:
  using State = optim::LossScaleState;

  // Parses the value of --loss-scale: "none" (scale 1), "dynamic", or a number. `batch`: the number of images on one
  // device. A dynamic scale begins at 2^16 / batch, rounded down to a power of two and at least 1, because gradients
  // are sums over the batch.
  static Result<LossScale> parse(std::string_view text, int64_t batch = 1);

  [[nodiscard]] double value() const { return state_.scale; }
  [[nodiscard]] bool is_dynamic() const { return dynamic_; }
  // The state with which executors compute. Checkpoints store the result of kept() instead.
  [[nodiscard]] const State& state() const { return state_; }
  // The state to store in a checkpoint; an empty state unless the scale is dynamic, because only a dynamic scale
  // changes during a run.
  [[nodiscard]] State kept() const { return dynamic_ ? state_ : State{}; }
  // Continues from `state`. Does nothing if the state is empty or the scale is not dynamic.
  void restore(const State& state);
  // Call good_step() after a step whose gradients were all finite, and bad_step() after a step with a gradient that was
  // not finite.
  void good_step() { follow(true); }
  void bad_step() { follow(false); }
  // Whether bad_step() lowers the scale, so that a later step may succeed.
  [[nodiscard]] bool can_fall() const { return dynamic_ && state_.scale > 1; }

 private:
  void follow(bool good) {
    if (dynamic_) state_ = optim::next_loss_scale({}, state_, good);
  }

  State state_{1, 0};
  bool dynamic_ = false;
};

}  // namespace dtrain::train
