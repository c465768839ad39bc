// Changes of the learning rate that a person asks for while a run trains (dtrain set-rate). They multiply what the
// schedule gives by a factor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
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

  // Call when metrics.jsonl exists, with the factor that a run begins with.
  void begin(double factor);

  // All workers call it when they have the newest weights, with no gradient under way.
  Result<> meet();

  // By which the run has changed the rate of the schedule so far.
  [[nodiscard]] const double& factor() const { return factor_; }

 private:
  struct Change {
    double factor = 1;
    std::string reason;
  };
  std::optional<Change> requested();
  void apply(const Change& change);

  RateControlParts parts_;
  double factor_ = 1;
  RateRequests requests_;  // of rank 0
};

}  // namespace dtrain::train
