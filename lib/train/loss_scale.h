// What the loss of float16 is multiplied by, so that its gradients neither vanish nor overflow. models.md 7.4.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace dtrain::train {

// Of one worker: each has its own, since gradients leave it divided by it. Checkpoints keep those of all workers.
class LossScale {
 public:
  // What changes in a run with a dynamic scale.
  struct State {
    double scale = 0;  // 0: none is known
    int64_t good_steps = 0;
    bool operator==(const State&) const = default;
  };

  // As job's flags say: "none" (1), "dynamic", or a number.
  static Result<LossScale> parse(std::string_view text);

  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool is_dynamic() const { return dynamic_; }
  // The empty state unless the scale is dynamic.
  [[nodiscard]] State state() const { return dynamic_ ? State{value_, good_steps_} : State{}; }
  // Goes on from there. Nothing happens if the state is empty or the scale is not dynamic.
  void restore(const State& state);
  // A step's gradients were all finite: after 2000 such steps the scale doubles, up to 2^24.
  void good_step();
  // They were not: the scale is halved. false: it is 1 already, so it was not the scale's fault.
  bool lower();

 private:
  double value_ = 1;
  bool dynamic_ = false;
  int64_t good_steps_ = 0;
};

}  // namespace dtrain::train
