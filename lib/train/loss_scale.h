// What the loss of float16 is multiplied by, so that its gradients neither vanish nor overflow. models.md 7.4.
#pragma once

#include <string_view>

#include "base/error.h"

namespace dtrain::train {

// Of one worker: each has its own, since gradients leave it divided by it. A resumed run begins anew with the scale.
class LossScale {
 public:
  // As job's flags say: "none" (1), "dynamic", or a number.
  static Result<LossScale> parse(std::string_view text);

  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool is_dynamic() const { return dynamic_; }
  // A step's gradients were all finite: after 2000 such steps the scale doubles, up to 2^24.
  void good_step();
  // They were not: the scale is halved. false: it is 1 already, so it was not the scale's fault.
  bool lower();

 private:
  double value_ = 1;
  bool dynamic_ = false;
  int good_steps_ = 0;
};

}  // namespace dtrain::train
