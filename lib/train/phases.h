// Where the time of the step loop goes: the metrics phase_s and step_s.
#pragma once

#include <array>
#include <vector>

#include "base/waits.h"
#include "telemetry/record.h"
#include "train/step.h"

namespace dtrain::train {

enum class Phase : uint8_t {
  kDataWait,  // for a batch
  kForward,
  kBackward,
  kPush,      // handing gradients to the store
  kPullWait,  // for weights
  kUpdate,    // of weights, by the step loop
  kValidation,
  kCheckpoint,
  kOther,
  kCount_,
};

// Used by one thread.
class Phases {
 public:
  // Both are borrowed. `times`: of the step runner, which go on counting.
  Phases(telemetry::Registry& registry, const StepTimes& times);

  // A step ran from `begin` until now and waited for its batch for `data_wait` of this time.
  void step(SteadyTime begin, SteadyTime::duration data_wait);
  // The loop was in this phase from `begin` until now, apart from what the step runner did meanwhile.
  void spent(Phase phase, SteadyTime begin);

  // phase_s of all phases, for a record.
  [[nodiscard]] std::vector<telemetry::Value> values() const;

 private:
  telemetry::Cell& cell(Phase phase) { return *cells_[static_cast<size_t>(phase)]; }
  double take_step_times();

  const StepTimes& times_;
  StepTimes taken_;
  std::array<telemetry::Cell*, static_cast<size_t>(Phase::kCount_)> cells_;
  telemetry::Histogram& step_s_;
};

}  // namespace dtrain::train
