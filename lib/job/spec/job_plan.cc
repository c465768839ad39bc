#include "job/spec/job_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "job/spec/job_spec.h"

namespace dtrain::job {

namespace {

sync::Policy policy_of(const JobSpec& spec, Scheme scheme) {
  const SchemeFlags& flags = spec.flags.scheme;
  const auto workers = static_cast<uint32_t>(spec.flags.num_workers);
  switch (scheme) {
    case Scheme::kBsp: return sync::bsp(workers, static_cast<uint32_t>(flags.backup));
    case Scheme::kAsp: return sync::asp(workers);
    case Scheme::kSsp: return sync::ssp(workers, static_cast<sync::Step>(flags.staleness));
    case Scheme::kGsp: break;
  }
  DT_CHECK(spec.groups.size() == workers, "the groups contain {} workers, but the job has {}", spec.groups.size(),
           workers);
  std::optional<sync::Step> lead_max;
  if (flags.group_staleness) lead_max = static_cast<sync::Step>(*flags.group_staleness);
  return sync::gsp(std::vector<sync::Group>(spec.groups.begin(), spec.groups.end()), lead_max);
}

// Derives the epoch rule of each worker. `plan` must be complete except for these rules.
std::vector<EpochRule> epoch_rules(const JobPlan& plan, uint64_t batch_size) {
  const sync::Policy& policy = plan.policy;
  std::map<sync::Group, uint64_t> sizes;
  for (const sync::Group group : policy.group_of) sizes[group]++;
  std::vector<EpochRule> rules;
  for (const sync::Group group : policy.group_of) {
    const uint64_t in_update = sizes[group] > policy.backup ? sizes[group] - policy.backup : 1;
    rules.push_back({.ends_after_fixed_steps = plan.same_weights || policy.lead_max,
                     .same_weights = plan.same_weights,
                     .samples = plan.samples_per_epoch,
                     .samples_per_step = batch_size * policy.group_of.size(),
                     .samples_per_update = batch_size * in_update});
  }
  return rules;
}

}  // namespace

bool all_go_back(const JobFlags& flags) {
  return store_of(flags).scheme == Scheme::kBsp && flags.scheme.backup == 0;
}

int64_t worker_seats(const JobFlags& flags) {
  return std::max(flags.num_workers, flags.scheme.max_workers);
}

std::vector<int64_t> groups_of_seats(const JobSpec& spec) {
  std::vector<int64_t> groups = spec.groups;
  std::map<int64_t, int64_t> sizes;
  for (const int64_t group : groups) sizes[group]++;
  const auto by_size = [](const auto& a, const auto& b) { return a.second < b.second; };
  while (!groups.empty() && std::ssize(groups) < worker_seats(spec.flags)) {
    const auto smallest = std::min_element(sizes.begin(), sizes.end(), by_size);
    groups.push_back(smallest->first);
    smallest->second++;
  }
  return groups;
}

sync::Policy policy_of_seats(const JobSpec& spec) {
  JobSpec seats = spec;
  seats.groups = groups_of_seats(spec);
  seats.flags.num_workers = worker_seats(spec.flags);
  return policy_of(seats, store_of(spec.flags).scheme);
}

JobPlan plan_of(const JobSpec& spec) {
  JobPlan plan;
  plan.store = store_of(spec.flags);
  plan.policy = policy_of(spec, plan.store.scheme);
  plan.same_weights = sync::has_same_weights(plan.policy) && spec.flags.scheme.regroup_every == 0;
  plan.stop_set_of = stop_sets(policy_of_seats(spec));
  plan.servers_only_sum = plan.store.servers && plan.store.update == Update::kWorker;
  if (spec.is_complete()) add_epochs(spec, plan);
  return plan;
}

void add_epochs(const JobSpec& spec, JobPlan& plan) {
  const int64_t batches = std::accumulate(spec.batches.begin(), spec.batches.end(), int64_t{0});
  plan.samples_per_epoch = static_cast<uint64_t>(batches * spec.flags.batch_size);
  plan.epoch_of = epoch_rules(plan, static_cast<uint64_t>(spec.flags.batch_size));
}

Result<> check_groups(const JobFlags& flags, const std::vector<int64_t>& groups) {
  const auto largest = std::max_element(groups.begin(), groups.end());
  if (!flags.scheme.deterministic || largest == groups.end() || *largest == 0) return {};
  return fail(Code::kUsage,
              "--deterministic: the updates of {} groups are applied in order of arrival; put all workers into one "
              "group, or use dist_sync",
              *largest + 1);
}

}  // namespace dtrain::job
