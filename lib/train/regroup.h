// --regroup-every: every E epochs, regroups the workers of a GSP job by the speeds measured in the last epoch, so that
// workers of similar speed are in one group. See docs/protocol.md, "Groups".
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "sync/machine.h"

namespace dtrain::train {

struct RegroupSpec {
  int64_t every = 0;         // number of epochs between regroupings; 0: the groups never change
  sync::Policy policy = {};  // policy of the job, with the initial groups
};

// The groups and the coordinator are borrowed and must outlive this object.
class Regrouper {
 public:
  // `groups`: from the worker's store (Store::groups). May be null if `spec.every` is 0.
  Regrouper(RegroupSpec spec, kvstore::GroupedStore* groups, job::Coordinator& coordinator, Log log);

  [[nodiscard]] bool is_due(int64_t finished_epochs) const {
    return spec_.every > 0 && finished_epochs % spec_.every == 0;
  }
  // All workers call it between epochs, with the newest weights and no step in progress. `samples_per_s`: this worker's
  // speed in the last epoch, without time spent waiting for the network. It is 0 if the worker made no step; then the
  // groups do not change. Returns true if there are new groups; then the number of the store's next step has changed.
  Result<bool> run(double samples_per_s);

  // The number of workers in this worker's group.
  [[nodiscard]] int64_t members() const;
  // The policy of the job with the present groups.
  [[nodiscard]] const sync::Policy& policy() const { return spec_.policy; }

 private:
  Result<> hand_out(const sync::Policy& policy);

  RegroupSpec spec_;  // the member policy.group_of is kept up to date
  kvstore::GroupedStore* const groups_;
  job::Coordinator& coordinator_;
  Log log_;
};

}  // namespace dtrain::train
