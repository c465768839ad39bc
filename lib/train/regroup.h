// Groups of a GSP job by what its workers did in an epoch (--regroup-every): who is about as fast as who goes with whom
// from the next one on. distributed.md 2.7, R-G11.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "kvstore/coordinator.h"
#include "kvstore/store.h"
#include "sync/machine.h"

namespace dtrain::train {

struct RegroupSpec {
  int64_t every = 0;                       // epochs; 0: never
  std::vector<sync::Group> group_of = {};  // by rank, at the start
  bool is_bounded = false;                 // how far groups may be apart: then all workers stop together
};

// The parts are borrowed and outlive it.
class Regrouper {
 public:
  Regrouper(RegroupSpec spec, kvstore::Store& store, kvstore::Coordinator& coordinator, Log log);

  [[nodiscard]] bool is_due(int64_t finished_epochs) const {
    return spec_.every > 0 && finished_epochs % spec_.every == 0;
  }
  // All workers call it when they stand still with the newest weights. `samples_per_s`: this worker's in the last epoch
  // while it waited for nobody; 0: it has made no step, and then all groups stay. True: there are new groups, and the
  // store's next step is another one.
  Result<bool> run(double samples_per_s);

  // Workers in this one's group.
  [[nodiscard]] int64_t members() const;

 private:
  Result<> hand_out(const std::vector<sync::Group>& group_of);

  RegroupSpec spec_;  // group_of: as it is now
  kvstore::Store& store_;
  kvstore::Coordinator& coordinator_;
  Log log_;
};

}  // namespace dtrain::train
