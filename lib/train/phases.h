// How the step loop spends its time: the metrics phase_s and step_s.
#pragma once

#include <array>
#include <vector>

#include "base/waits.h"
#include "telemetry/record.h"
#include "train/step.h"

namespace dtrain::train {

enum class Phase : uint8_t {
  kDataWait,  // the step loop waits for a batch
  kForward,
  kBackward,
  kPush,      // handing gradients to the store
  kPullWait,  // the step loop waits for weights
  kUpdate,    // updating weights in the step loop
  kValidation,
  kCheckpoint,
  kOther,
  kCount_,
};

// Used by one thread.
class Phases {
 public:
  // Borrows the arguments. `times`: the step runner's totals, which keep growing.
  Phases(telemetry::Registry& registry, const StepTimes& times);

  // To be called after a step that ran from `begin` until now and waited for its batch for `data_wait` of this time.
  void step(SteadyTime begin, SteadyTime::duration data_wait);
  // To be called when the loop has been in this phase since `begin`. Time that the step runner has counted meanwhile is
  // excluded.
  void spent(Phase phase, SteadyTime begin);

  // The phase_s of all phases, for a record in metrics.jsonl.
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
