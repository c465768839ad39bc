// Changes of the learning rate while a run trains. The schedule's rate is multiplied by two factors: that of the user
// (dtrain set-rate), which is in checkpoints, and with --elastic-batch scale the number of samples of an update,
// divided by that at the start of the job.
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

  // With --elastic-batch scale: makes the rate follow the number of samples of an update, which the clock's rule says.
  // All workers call it at the same point when the rule has changed, with no gradient in flight; a worker that joins
  // also does. Returns when all servers and all workers have the rate, whichever worker is lost meanwhile.
  Result<> follow_batch();

  // The user's factor.
  [[nodiscard]] const double& factor() const { return factor_; }

 private:
  struct Change {
    double factor = 1;
    std::string reason;
  };
  Result<> take_over();
  Result<> set_for_all();
  std::optional<Change> requested();
  void apply(const Change& change);

  RateControlParts parts_;
  double factor_ = 1;        // the user's
  double batch_factor_ = 1;  // the factor that follows the number of samples of an update
  bool leads_ = false;       // whether this worker has led at a meeting
  RateRequests requests_;    // only used by the leader
};

}  // namespace dtrain::train
