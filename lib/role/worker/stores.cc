#include "role/worker/stores.h"

#include <algorithm>

#include "comm/gloo.h"
#include "comm/hierarchy.h"
#include "comm/shared_memory.h"
#include "kvstore/wire/placement.h"
#include "role/process/addresses.h"
#include "role/setup/devices.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"
#include "role/worker/meeting.h"
#include "train/loss_scale.h"

namespace dtrain::role {
namespace {

using Group = std::vector<std::unique_ptr<comm::Collective>>;

// The limit on a wait for other members of a group. It only catches a bug: members that neither arrive nor are lost. A
// step may take any time; the scheduler detects lost workers, and their connections close.
constexpr double kWaitLimitSeconds = 24 * 3600;

// Checks that all workers have the same number of devices, because the group's ranks are (worker, device) pairs.
Result<> check_devices(const StoreSetup& setup) {
  const uint64_t mine = device_count(setup.flags);
  DT_TRY(const std::vector<job::DeviceCount> all,
         setup.coordinator.all_gather("devices of the workers", job::DeviceCount{mine}));
  const auto other = std::ranges::find_if(all, [&](const job::DeviceCount& count) { return count.devices != mine; });
  if (other == all.end()) return {};
  return fail(
      Code::kUsage,
      "worker {} has {} devices, but worker {} has {}: --kv-store {} needs the same number of devices on all workers",
      setup.coordinator.rank(), mine, other - all.begin(), other->devices, setup.spec.flags.scheme.kv_store);
}

// The workers whose devices are in one group with those of this process.
std::vector<uint32_t> first_members(const StoreSetup& setup) {
  const job::Store& store = setup.plan.store;
  const bool spans_workers = store.spans_workers() && !store.servers;
  return spans_workers ? setup.coordinator.live() : std::vector{setup.coordinator.rank()};
}

bool may_lose_workers(const job::JobFlags& flags) {
  return flags.scheme.on_worker_loss != job::OnWorkerLoss::kFail;
}

// Makes this process's end of the group of the workers with these ranks.
Result<std::unique_ptr<comm::Collective>> meet_workers(const job::Flags& flags, job::Coordinator& coordinator,
                                                       const std::vector<uint32_t>& members) {
  DT_TRY(const std::string address, own_address(flags.launch));
  const auto own = std::ranges::find(members, coordinator.rank());
  DT_CHECK(own != members.end(), "worker {} is not in its own group", coordinator.rank());
  comm::GlooOptions options{.rank = static_cast<uint32_t>(own - members.begin()),
                            .size = static_cast<uint32_t>(members.size()),
                            .listen_ip = address,
                            .wait_limit_s = kWaitLimitSeconds};
  if (may_lose_workers(flags.job)) {
    options.connect_limit_s = std::chrono::duration<double>(flags.wire.heartbeat_timeout).count();
    options.silence_limit_s = options.connect_limit_s;
    options.on_unreached = [&](uint32_t rank) { coordinator.cannot_reach(members[rank]); };
  }
  return comm::make_gloo_group(options, [&](std::vector<std::string> for_each) {
    return exchange_pair_addresses(coordinator, "addresses of the workers", members, std::move(for_each));
  });
}

// Creates one member of a group for each device of this process, over the host's memory. `members`: the workers whose
// devices are in the group. Empty if there is only one device in total.
Result<Group> join_on_host(const job::Flags& flags, job::Coordinator& coordinator,
                           const std::vector<uint32_t>& members) {
  const auto devices = static_cast<uint32_t>(device_count(flags));
  const bool among_workers = members.size() > 1;
  if (!among_workers && devices == 1) return Group{};
  if (!among_workers) return comm::make_shared_memory_group(devices, {.wait_limit_s = kWaitLimitSeconds});
  DT_TRY(std::unique_ptr<comm::Collective> workers, meet_workers(flags, coordinator, members),
         "joining the group of all workers");
  Group group;
  if (devices == 1) {
    group.push_back(std::move(workers));
    return group;
  }
  return comm::make_hierarchy({.devices = devices, .wait_limit_s = kWaitLimitSeconds}, std::move(workers));
}

// Like join_on_host, but over the memory of the devices that `executors` use.
Result<Group> join_on_devices(const StoreSetup& setup, exec::DeviceModule& module,
                              std::span<exec::Executor* const> executors) {
  comm::Processes processes;
  if (first_members(setup).size() > 1) {
    processes = {.rank = setup.coordinator.rank(),
                 .size = setup.coordinator.workers(),
                 .exchange = [&](const std::string& mine) {
                   return exchange_addresses(setup.coordinator, "the name of the GPUs' group", mine);
                 }};
  }
  if (processes.size * executors.size() == 1) return Group{};
  return module.join(executors, processes);
}

}  // namespace

kvstore::UpdateAt update_place(const job::Store& store, int64_t workers) {
  if (store.servers) return kvstore::UpdateAt::kServers;
  if (store.update == job::Update::kWorker) return kvstore::UpdateAt::kReplicas;
  switch (store.sum) {
    case job::Sum::kHost: return kvstore::UpdateAt::kFirstDevice;
    case job::Sum::kDevice: return kvstore::UpdateAt::kOwner;
    // With several workers, each device holds the whole optimizer state (kReplicas), because only rank 0 writes
    // checkpoints and needs all of the state for them.
    case job::Sum::kNccl: return workers > 1 ? kvstore::UpdateAt::kReplicas : kvstore::UpdateAt::kShards;
    case job::Sum::kGloo: break;
  }
  return kvstore::UpdateAt::kReplicas;
}

std::string update_text(const job::Flags& flags) {
  // With --gpus all, a dry run on another host does not know the number of GPUs.
  const size_t devices = flags.device.gpus.has_numbers() ? device_count(flags) : 0;
  const std::string memory = parameters_on_device(flags) ? "its own memory" : "the host's memory";
  const auto of = [&](const char* what) {
    const std::string each = devices == 0 ? "on each GPU" : fmt::format("on each of {} devices", devices);
    return fmt::format("{}, {}, in {}", each, what, memory);
  };
  const kvstore::UpdateAt place = update_place(job::store_of(flags.job), job::worker_seats(flags.job));
  if (place == kvstore::UpdateAt::kServers) return "on the servers";
  if (devices == 1 || place == kvstore::UpdateAt::kFirstDevice) {
    return fmt::format("on {}, in {}", device_names(flags.device).front(), memory);
  }
  if (place == kvstore::UpdateAt::kOwner) return of("some of the weights");
  return of(place == kvstore::UpdateAt::kShards ? "its part of the weights" : "all of its weights");
}

namespace {

// Whether workers may skip single steps. A worker that skips a step contributes no samples to it.
bool leaves_out_steps(const job::JobFlags& flags) {
  const Result<train::LossScale> scale = train::LossScale::parse(flags.loss_scale);
  return flags.optimizer.on_nan == job::OnNan::kSkip || !scale || scale->is_dynamic();
}

}  // namespace

kvstore::DeviceStoreOptions store_options(const job::Flags& flags, const job::JobSpec& spec, const job::JobPlan& plan) {
  return {.update_at = update_place(plan.store, job::worker_seats(spec.flags)),
          .rule = update_rule(spec.flags, plan),
          .threads = plan_threads(flags).device,
          .samples_differ = leaves_out_steps(spec.flags)};
}

Result<kvstore::DistStoreOptions> dist_store_options(const job::Flags& flags, const job::JobSpec& spec,
                                                     const job::JobPlan& plan) {
  kvstore::DistStoreOptions options;
  DT_TRY(options.placement, kvstore::parse_placement(spec.placement, static_cast<size_t>(spec.flags.num_servers)),
         "reading the job's placement");
  options.rule = update_rule(spec.flags, plan);
  options.sums_only = plan.servers_only_sum;
  options.update_threads = plan_threads(flags).compute;
  options.skips_steps = plan.policy.backup > 0;
  options.workers_differ = !plan.same_weights;
  return options;
}

namespace {

kvstore::DeviceStoreOptions own_store_options(const StoreSetup& setup) {
  kvstore::DeviceStoreOptions options = store_options(setup.flags, setup.spec, setup.plan);
  options.bucket_begin = setup.bucket_begin;
  options.timeline = setup.timeline;
  return options;
}

std::vector<exec::Executor*> all_of(exec::DeviceGroup& executors) {
  std::vector<exec::Executor*> all;
  for (size_t i = 0; i < executors.size(); i++) all.push_back(&executors.executor(i));
  return all;
}

// Whether the devices themselves sum their gradients before the sum is sent to the servers: true for GPUs with
// dist_device_*. Never true for CPU devices, whose gradients the store sums in the host's memory.
bool sums_on_devices(const StoreSetup& setup, const Devices& devices) {
  const job::Store& store = setup.plan.store;
  return devices.module() != nullptr && store.servers && store.sum == job::Sum::kDevice;
}

Result<std::unique_ptr<kvstore::Store>> store_on_devices(const StoreSetup& setup, const Devices& devices,
                                                         exec::DeviceGroup& executors) {
  const std::vector<exec::Executor*> all = all_of(executors);
  kvstore::DeviceStore::Optimizers optimizers;
  for (exec::Executor* executor : all) {
    DT_TRY(optimizers.emplace_back(), devices.module()->make_optimizer(*executor, optimizer_spec(setup.spec.flags)));
  }
  DT_TRY(Group group, join_on_devices(setup, *devices.module(), all), "joining the GPUs");
  DT_TRY(std::unique_ptr<kvstore::DeviceStore> store,
         kvstore::DeviceStore::create_on_devices(own_store_options(setup), std::move(group), std::move(optimizers),
                                                 setup.waits));
  return store;
}

}  // namespace

Result<std::unique_ptr<kvstore::Store>> join_devices(const StoreSetup& setup, const Devices& devices,
                                                     exec::DeviceGroup& executors,
                                                     std::unique_ptr<kvstore::Store> servers) {
  const std::vector<uint32_t> members = first_members(setup);
  const bool joins_job = setup.flags.launch.joins && servers == nullptr;
  if (members.size() > 1 && !joins_job) DT_TRY_VOID(check_devices(setup));
  if (executors.parameters_on_device()) return store_on_devices(setup, devices, executors);
  Group group(device_count(setup.flags));  // without groups, until the worker takes part in the running job
  if (!joins_job) {
    DT_TRY(group, join_on_host(setup.flags, setup.coordinator, members));
  }
  if (servers != nullptr && group.empty()) return servers;
  kvstore::DeviceStoreOptions options = own_store_options(setup);
  options.members = members;
  options.joins = joins_job;
  const bool is_renewed =
      servers == nullptr ? may_lose_workers(setup.spec.flags) : setup.spec.flags.scheme.snapshot_every > 0;
  if (is_renewed) {
    options.make_group = [&flags = setup.flags, &coordinator = setup.coordinator](const std::vector<uint32_t>& now) {
      return join_on_host(flags, coordinator, now);
    };
  }
  options.gradients_are_summed = sums_on_devices(setup, devices);
  if (options.gradients_are_summed) {
    DT_TRY_VOID(devices.module()->sum_gradients(all_of(executors)), "joining the GPUs");
  }
  DT_TRY(std::unique_ptr<kvstore::DeviceStore> store,
         kvstore::DeviceStore::create(std::move(options), std::move(group), std::move(servers), setup.waits));
  return store;
}

}  // namespace dtrain::role
