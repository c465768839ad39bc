// What follows from a JobSpec, for every scheme.
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"

#include "job/flags/flags.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::job;

namespace {

// A complete spec: three workers that make 2, 3 and 2 batches of 4.
JobSpec spec_of(const char* store) {
  JobSpec spec;
  spec.flags.scheme.kv_store = store;
  spec.flags.num_workers = 3;
  spec.flags.batch_size = 4;
  spec.shares = {{0, 8}, {8, 20}, {20, 28}};
  spec.batches = {2, 3, 2};
  return spec;
}

JobSpec gsp_of(std::vector<int64_t> groups) {
  JobSpec spec = spec_of("dist_gsync");
  spec.groups = std::move(groups);
  return spec;
}

bool same(const sync::Policy& a, const sync::Policy& b) {
  return a.group_of == b.group_of && a.lead_max == b.lead_max && a.snapshots == b.snapshots && a.backup == b.backup;
}

using Sets = std::vector<uint32_t>;

}  // namespace

TEST_CASE("each scheme has its documented policy", "[job]") {
  JobSpec spec = spec_of("dist_sync");
  CHECK(same(plan_of(spec).policy, sync::bsp(3)));
  spec.flags.scheme.backup = 1;
  CHECK(same(plan_of(spec).policy, sync::bsp(3, 1)));
  CHECK(same(plan_of(spec_of("dist_async")).policy, sync::asp(3)));
  spec = spec_of("dist_device_ssync");
  CHECK(same(plan_of(spec).policy, sync::ssp(3, 0)));
  spec.flags.scheme.staleness = 5;
  CHECK(same(plan_of(spec).policy, sync::ssp(3, 5)));
  spec = gsp_of({1, 0, 1});
  CHECK(same(plan_of(spec).policy, sync::gsp({1, 0, 1})));
  spec.flags.scheme.group_staleness = 2;
  CHECK(same(plan_of(spec).policy, sync::gsp({1, 0, 1}, 2)));
  spec.groups = {1, 0};
  CHECK_THROWS_AS(plan_of(spec), CheckFailed);
}

TEST_CASE("workers have the same weights if they form one fixed group that waits for all members", "[job]") {
  for (const char* store :
       {"local", "device", "nccl", "allreduce", "nccl_allreduce", "dist_sync", "dist_device_sync"}) {
    INFO(store);
    CHECK(plan_of(spec_of(store)).same_weights);
  }
  JobSpec backup = spec_of("dist_sync");
  backup.flags.scheme.backup = 1;
  CHECK_FALSE(plan_of(backup).same_weights);
  for (const char* store : {"dist_async", "dist_device_async", "dist_ssync", "dist_device_ssync"}) {
    INFO(store);
    JobSpec spec = spec_of(store);
    CHECK_FALSE(plan_of(spec).same_weights);
    spec.flags.num_workers = 1;
    spec.shares = {{0, 8}};
    spec.batches = {2};
    CHECK(plan_of(spec).same_weights);
  }
  CHECK_FALSE(plan_of(gsp_of({0, 1, 0})).same_weights);
  JobSpec one_group = gsp_of({0, 0, 0});
  CHECK(plan_of(one_group).same_weights);
  one_group.flags.scheme.regroup_every = 2;
  CHECK_FALSE(plan_of(one_group).same_weights);
}

TEST_CASE("workers that wait for each other stop together, and all workers do if the lead is bounded", "[job]") {
  CHECK(plan_of(spec_of("dist_sync")).stop_set_of == Sets{0, 0, 0});
  CHECK(plan_of(spec_of("dist_async")).stop_set_of == Sets{0, 1, 2});
  CHECK(plan_of(spec_of("dist_ssync")).stop_set_of.empty());
  JobSpec gsp = gsp_of({0, 1, 0});
  CHECK(plan_of(gsp).stop_set_of == Sets{0, 1, 0});
  gsp.flags.scheme.group_staleness = 3;
  CHECK(plan_of(gsp).stop_set_of.empty());
}

TEST_CASE("servers leave the update to the workers with --update-on worker only", "[job]") {
  JobSpec spec = spec_of("dist_sync");
  CHECK_FALSE(plan_of(spec).servers_only_sum);
  spec.flags.scheme.update_on = UpdateOn::kWorker;
  CHECK(plan_of(spec).servers_only_sum);
  CHECK_FALSE(plan_of(spec_of("allreduce")).servers_only_sum);  // no servers
}

// 7 batches of 4. A step of all three workers has 12 samples.
TEST_CASE("an epoch ends after a worker's own steps or after a number of applied samples", "[job]") {
  const EpochRule counted{.ends_after_fixed_steps = true,
                          .same_weights = false,
                          .samples = 28,
                          .samples_per_step = 12,
                          .samples_per_update = 4};
  EpochRule bsp = counted, asp = counted;
  bsp.same_weights = true;
  bsp.samples_per_update = 12;
  asp.ends_after_fixed_steps = false;
  CHECK(plan_of(spec_of("dist_sync")).epoch_of == std::vector(3, bsp));
  CHECK(plan_of(spec_of("dist_async")).epoch_of == std::vector(3, asp));
  CHECK(plan_of(spec_of("dist_ssync")).epoch_of == std::vector(3, counted));
  EpochRule pair = asp;
  pair.samples_per_update = 8;
  JobSpec gsp = gsp_of({0, 1, 0});
  CHECK(plan_of(gsp).epoch_of == std::vector{pair, asp, pair});
  gsp.flags.scheme.group_staleness = 3;
  pair.ends_after_fixed_steps = true;
  CHECK(plan_of(gsp).epoch_of == std::vector{pair, counted, pair});
  CHECK(plan_of(gsp).epoch_of[0].steps_until(1) == 3);
  CHECK(plan_of(gsp).epoch_of[0].steps_until(3) == 7);
}

TEST_CASE("backup workers are not counted in an update, which has at least one worker", "[job]") {
  JobSpec spec = spec_of("dist_sync");
  spec.flags.scheme.backup = 2;
  const EpochRule rule = plan_of(spec).epoch_of[0];
  CHECK(rule.samples_per_update == 4);
  CHECK_FALSE(rule.ends_after_fixed_steps);
  spec.flags.scheme.backup = 3;
  CHECK(plan_of(spec).epoch_of[0].samples_per_update == 4);
}

TEST_CASE("a plan without shares lacks only the epochs", "[job]") {
  JobSpec spec = spec_of("dist_async");
  CHECK(plan_of(spec).samples_per_epoch == 28);
  spec.shares.clear();
  spec.batches.clear();
  const JobPlan plan = plan_of(spec);
  CHECK((plan.samples_per_epoch == 0 && plan.epoch_of.empty()));
  CHECK(same(plan.policy, sync::asp(3)));
  CHECK(plan.stop_set_of == Sets{0, 1, 2});
}

// Groups push independently, so their updates come in any order.
TEST_CASE("--deterministic is refused with several groups", "[job]") {
  JobFlags flags;
  CHECK(check_groups(flags, {0, 1, 0}));
  flags.scheme.deterministic = true;
  const Result<> refused = check_groups(flags, {0, 1, 0});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("the updates of 2 groups are applied in order of arrival"));
  CHECK(check_groups(flags, {0, 0, 0}));
  CHECK(check_groups(flags, {}));
}
