// What a worker does when a server is lost and another one takes its place. The step in progress cannot be completed,
// so all workers meet. If the servers have the same version, all of them meanwhile go back to one of which each has a
// snapshot, and then the workers go back to the step of that number: each keeps what only it knows at the versions of
// which the servers take snapshots. Otherwise only the new server has gone back, and the workers continue where they
// are (align()). Without snapshots, the functions do nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "sync/machine.h"
#include "train/agreement.h"
#include "train/epoch_clock.h"
#include "train/metrics.h"
#include "train/step.h"

namespace dtrain::train {

// All references are borrowed and must outlive the object.
struct ServerReturnParts {
  uint64_t snapshot_every = 0;  // the servers take a snapshot of each version that this number divides; 0: of none
  bool all_go_back = true;
  kvstore::Store& store;
  job::Coordinator& coordinator;
  EpochClock& clock;
  StepRunner& steps;
  Metrics& metrics;  // of the training
  Log log;
};

// For the thread of the step loop.
class ServerReturn {
 public:
  explicit ServerReturn(ServerReturnParts parts);

  // Whether another server may take the place of a lost one.
  [[nodiscard]] bool may_go_back() const { return links_ != nullptr; }
  // Whether keep() is to be called before the next step.
  [[nodiscard]] bool is_due() const {
    return may_go_back() && parts_.all_go_back && parts_.clock.begins_update() &&
           parts_.clock.updates() % parts_.snapshot_every == 0;
  }
  // `start`: where the run is, without what each worker has for itself. `job_text`: the JobSpec of the workers that
  // divide the records.
  void keep(Start start, std::string job_text);
  // The newest version to which this worker can go back; nullopt: it needs none. All workers that meet say it (OwnEnd).
  // A newcomer needs nothing of a version at which it was not there or was about to begin.
  [[nodiscard]] std::optional<uint64_t> kept() const;
  // To be called by a worker that joins the running job, before its first request: what was lost and replaced while it
  // prepared itself does not matter.
  void join();
  // These workers begin with the next step.
  void note_newcomers(const std::set<uint32_t>& ranks);

  // Whether the workers can continue after this error, when they have met.
  [[nodiscard]] bool may_continue_after(const Error& error) const;
  // After such an error: gives up the step and meets the others. When it returns, the servers have gone back.
  Result<> meet(const Error& why);
  // After requests to the servers that all workers make together, all call it with their outcomes. Returns whether all
  // have succeeded. If not, the servers have gone back. An Error that is not about a lost server is returned.
  Result<bool> agree_on_success(const Result<>& own);
  // The servers have gone back: all workers call it, and get the position to which they go, with their own state.
  // `job_text` and `rule`: those of the workers that are there now. Code::kPeerLost: no worker knows this position.
  Result<AgreedStart> agree_on_position(const std::string& job_text, const EpochRule& rule);
  // If only the new server has gone back: all workers call it, and then get the weights. The leader makes the slices of
  // all servers continue alike, and workers that make the same number of steps in an epoch have made the step in
  // progress if others of their group have. Returns false if another server was lost meanwhile; then all call it again.
  Result<bool> align(const sync::Policy& policy);
  // To be called when the worker has the weights of that position.
  void restore_statistics();
  // To be called then, when all workers have them: keeps this position, as keep(), for all workers that are there.
  void settle(Start start, std::string job_text);

 private:
  struct Point {
    uint64_t version = 0;
    Start start = {};
    LossScale::State loss_scale = {};
    std::vector<double> metric_sums = {};
    std::vector<float> statistics = {};  // of all devices
    std::string job_text = {};
  };
  void give_up_step();
  [[nodiscard]] std::vector<uint64_t> steps_of_groups(const sync::Policy& policy) const;
  [[nodiscard]] const Point* at(uint64_t version) const;
  [[nodiscard]] std::set<uint32_t> newcomers_since(uint64_t version) const;

  ServerReturnParts parts_;
  kvstore::ServerLinks* const links_;         // null: the run does not go back because of a server
  std::deque<Point> points_;                  // sorted by version
  std::map<uint32_t, uint64_t> newcomer_at_;  // by rank: the first step of the worker that has joined last
  uint64_t version_ = 0;                      // to which the run goes back
};

}  // namespace dtrain::train
