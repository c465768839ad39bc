// Changes of the learning rate that a user requests while a run trains (dtrain set-rate). They multiply the schedule's
// rate by a factor.
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

// The leader decides about changes. Its store notifies the servers before all workers meet, so the next update of each
// slice, on every server, is the first one with the new rate.
class RateControl {
 public:
  explicit RateControl(RateControlParts parts) : parts_(std::move(parts)) {}

  // To be called when metrics.jsonl exists, with the factor with which the run begins.
  void begin(double factor);

  // The run goes back to a position with this factor.
  void go_back(double factor);

  // All workers call it when they have the newest weights and no gradient is in flight.
  Result<> meet();

  // The factor by which the run has changed the schedule's rate so far.
  [[nodiscard]] const double& factor() const { return factor_; }

 private:
  struct Change {
    double factor = 1;
    std::string reason;
  };
  Result<> take_over();
  std::optional<Change> requested();
  void apply(const Change& change);

  RateControlParts parts_;
  double factor_ = 1;
  bool leads_ = false;     // whether this worker has led at a meeting
  RateRequests requests_;  // only used by the leader
};

}  // namespace dtrain::train
