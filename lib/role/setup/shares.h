// The records on which each worker trains: groups, shares and the batches of a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/records/sharding_file.h"
#include "data/records/share.h"
#include "job/spec/groups.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"

namespace dtrain::role {

// Reads the fractions from the --data-sharding-file; empty unless --data-allocator 1. Code::kUsage if the file does not
// exist or is invalid.
Result<std::vector<data::Fraction>> read_sharding(const job::Flags& flags);

// Reads the text of GSP's groups, for job::parse_groups; nullopt for other schemes. Code::kUsage if the file does not
// exist. With --ungrouped own the file may be missing unless --groups-file names it.
Result<std::optional<job::GroupsFile>> read_groups(const job::Flags& flags);

// How the `records` training records are shared, and how many batches each worker takes for one pass over its share.
// Workers that wait for each other all take the same number of batches: the number that the largest of their shares
// fills.
struct PassPlan {
  std::vector<job::Interval> shares;  // the records of each worker, indexed by rank
  std::vector<int64_t> batches;       // the number of batches of each worker, indexed by rank
};
Result<PassPlan> plan_passes(const job::JobSpec& spec, const job::JobPlan& plan, int64_t records,
                             const std::vector<data::Fraction>& sharding);
// Fills in the values that are known only once the data is open: numbers of records, shares, batches. The groups of GSP
// must be filled in already. Returns the plan that follows from the complete spec.
Result<job::JobPlan> complete_spec(int64_t records_train, int64_t records_val,
                                   const std::vector<data::Fraction>& sharding, job::JobSpec& spec);
// The spec of a job of only these workers, which divides the records among them. If the shares come from a file, they
// keep their proportions, and a worker that has joined later counts as an average one. `live`: ranks in the job of
// `spec`, sorted; the workers get new ranks in this order.
Result<job::JobSpec> spec_of_live(const job::JobSpec& spec, const std::vector<uint32_t>& live);
// The records that a worker trains on in an epoch. Shares rotate every resplit_every epochs.
data::Share share_of(const job::JobSpec& spec, uint32_t rank, int64_t epoch);
// A warning about workers that wait for each other but have unequal shares. Empty if there are none.
std::string unequal_shares(const job::JobSpec& spec, const job::JobPlan& plan);
// Warnings about properties of a job's data that may be unintended: unequal shares, a batch larger than a worker's
// share, no validation data.
std::vector<std::string> data_hints(const job::JobSpec& spec, const job::JobPlan& plan);

}  // namespace dtrain::role
