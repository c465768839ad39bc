// What follows from a JobSpec: which workers wait for each other, have the same weights, and stop together, and when an
// epoch ends. It is derived only here: each process makes one JobPlan from its JobSpec and passes it to all its parts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "job/flags/store.h"
#include "sync/machine.h"

namespace dtrain::job {

struct JobFlags;
struct JobSpec;

// Decides when an epoch ends for a worker. An epoch is `samples` applied samples, whichever workers computed them.
// Meanwhile each worker cycles through its own share of the data, in passes of as many batches as its loader has. See
// docs/architecture.md, "One training step".
struct EpochRule {
  // true: after a fixed number of its own steps, chosen so that all workers together reach the samples. Used by BSP and
  // whenever the lead of a worker is bounded. false: as soon as the store reports that the samples have been applied.
  bool ends_after_fixed_steps = true;
  // Whether all workers begin a step with the same weights (BSP). Otherwise they meet at the end of an epoch.
  bool same_weights = true;
  uint64_t samples = 0;           // samples in an epoch, over all workers; this and the next two must be set
  uint64_t samples_per_step = 0;  // samples of one step of all workers
  uint64_t samples_per_update =
      0;  // samples of one update: of the workers whose gradients are summed with this worker's
  // Steps of each worker for one update: it adds up their gradients before it hands them to the store. Only at the end
  // of an epoch, an update has fewer. Not 1 only with --elastic-batch keep, when workers are missing.
  uint64_t steps_per_update = 1;

  // The number of steps that a worker makes in the first `epochs` epochs. Only an average if ends_after_fixed_steps is
  // false.
  [[nodiscard]] int64_t steps_until(int64_t epochs) const {
    return static_cast<int64_t>((static_cast<uint64_t>(epochs) * samples + samples_per_step - 1) / samples_per_step);
  }
  // The same rule with an update after every `steps` steps. This one must have an update after each step.
  [[nodiscard]] EpochRule with_update_after(uint64_t steps) const {
    EpochRule rule = *this;
    rule.samples_per_update *= steps;
    rule.steps_per_update = steps;
    return rule;
  }
  bool operator==(const EpochRule&) const = default;
};

struct JobPlan {
  Store store;          // the store that --kv-store names
  sync::Policy policy;  // which workers wait for each other
  // True if all workers begin every step with the same weights: they form one group (BSP, or GSP with a single one),
  // without backup workers or regrouping.
  bool same_weights = true;
  // The number of each seat's stop set (Ready in sync/membership.h). Empty: all workers are in one set.
  std::vector<uint32_t> stop_set_of;
  // True if the servers only sum gradients and leave the update of the weights to the workers.
  bool servers_only_sum = false;

  // The members below are known once the JobSpec is complete; until then they are 0 and empty.
  //
  // The number of samples that all workers together process in an epoch, in which each makes one pass over its share.
  // Learning-rate schedules count in this unit.
  uint64_t samples_per_epoch = 0;
  std::vector<EpochRule> epoch_of;  // the epoch rule of each worker
};

// Whether all servers and workers go back when a lost server was replaced (--snapshot-every), since they would
// otherwise not be at the same version. If not, only the new server goes back, and the others keep what they have.
bool all_go_back(const JobFlags& flags);
// The number of seats of workers: those with which the job starts, and those that others may take later.
int64_t worker_seats(const JobFlags& flags);
// The group of each seat of a GSP job: those of its workers, and for each further seat the smallest group.
std::vector<int64_t> groups_of_seats(const JobSpec& spec);
// The policy of the plan, for all seats.
sync::Policy policy_of_seats(const JobSpec& spec);

// The groups of a GSP job must be filled in already. Shares and batches may still be missing; the members that depend
// on them (see add_epochs) are then not set.
JobPlan plan_of(const JobSpec& spec);
// Sets the members of a plan that are known once its JobSpec is complete.
void add_epochs(const JobSpec& spec, JobPlan& plan);

// The stop sets under this policy, as in JobPlan. Workers that wait for each other are in one set and stop after the
// same step. Empty if the policy bounds the lead of the fastest worker: all workers are then in one set.
inline std::vector<uint32_t> stop_sets(const sync::Policy& policy) {
  return policy.lead_max ? std::vector<uint32_t>{} : policy.group_of;
}

// Code::kUsage if the groups of a GSP job contradict its flags: --deterministic permits only one group, because the
// updates of several groups are applied in order of arrival. `groups` holds the group of each worker.
Result<> check_groups(const JobFlags& flags, const std::vector<int64_t>& groups);

}  // namespace dtrain::job
