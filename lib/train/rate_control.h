// Changes of the learning rate that are decided while a run trains: on a plateau of the validation accuracy
// (--lr-patience), or by a person (dtrain set-rate). They multiply what the schedule gives by a factor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "train/checkpoint_header.h"
#include "train/epoch_clock.h"
#include "train/rate_request.h"
#include "train/train_spec.h"

namespace dtrain::train {

// All references are borrowed and must outlive the object.
struct RateControlParts {
  const TrainSpec& spec;
  EpochClock& clock;
  kvstore::Store& store;
  job::Coordinator& coordinator;
  Log log;
};

// Rank 0 decides. Its store tells the servers before all workers meet, so the next update of each slice, on whichever
// server, is the first one with the new rate.
class RateControl {
 public:
  explicit RateControl(RateControlParts parts) : parts_(std::move(parts)) {}

  // Call when metrics.jsonl exists, with the state that rank 0 has read from a checkpoint.
  void begin(const RateState& start);

  // All workers call it when they have the newest weights, with no gradient under way. `best`: of the run so far, if
  // an epoch ends here; else only requests count.
  Result<> meet(const std::optional<BestAccuracy>& best);

  // Only rank 0 knows it completely.
  [[nodiscard]] const RateState& state() const { return state_; }

 private:
  struct Change {
    double factor = 1;
    std::string reason;
  };
  [[nodiscard]] bool is_on() const;
  std::optional<Change> requested();
  [[nodiscard]] std::optional<Change> on_plateau(const BestAccuracy& best) const;
  void apply(const Change& change);

  RateControlParts parts_;
  RateState state_;
  RateRequests requests_;  // of rank 0
};

}  // namespace dtrain::train
