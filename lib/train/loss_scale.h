// The factor by which the loss is multiplied in float16, so that gradients neither underflow nor overflow. See
// docs/arithmetic.md, "Loss scaling".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace dtrain::train {

// The loss scale of one worker. Each worker has its own, because gradients are divided by it before they leave the
// worker. Checkpoints keep the scales of all workers.
class LossScale {
 public:
  // The part of a dynamic scale that changes during a run.
  struct State {
    double scale = 0;  // 0: an empty state, which restore() ignores
    int64_t good_steps = 0;
    bool operator==(const State&) const = default;
  };

  // Parses the value of --loss-scale: "none" (scale 1), "dynamic", or a number.
  static Result<LossScale> parse(std::string_view text);

  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool is_dynamic() const { return dynamic_; }
  // Returns an empty state unless the scale is dynamic.
  [[nodiscard]] State state() const { return dynamic_ ? State{value_, good_steps_} : State{}; }
  // Continues from `state`. Does nothing if the state is empty or the scale is not dynamic.
  void restore(const State& state);
  // To be called after a step whose gradients were all finite. After 2000 such steps in a row the scale doubles, up to
  // 2^24.
  void good_step();
  // To be called after a step with a gradient that was not finite: halves the scale. Returns false if the scale is not
  // dynamic or is already 1, so that lowering it cannot help.
  bool lower();

 private:
  double value_ = 1;
  bool dynamic_ = false;
  int64_t good_steps_ = 0;
};

}  // namespace dtrain::train
