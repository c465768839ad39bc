// Builds a worker's store from the JobSpec: how its devices are connected, and the store behind them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/waits.h"
#include "exec/device_group.h"
#include "job/process/coordinator.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "kvstore/store.h"
#include "kvstore/worker/device_store.h"
#include "kvstore/worker/dist_store.h"
#include "role/setup/devices.h"

namespace dtrain::role {

// Where the weights are updated. `workers`: the largest number that the job may have.
kvstore::UpdateAt update_place(const job::Store& store, int64_t workers);

// Where gradients are summed and weights updated, as text for the log: "on each of 2 devices, its part, in its own
// memory".
std::string update_text(const job::Flags& flags);

// The options of the store over this process's devices, except for the buckets and the timeline.
kvstore::DeviceStoreOptions store_options(const job::Flags& flags, const job::JobSpec& spec, const job::JobPlan& plan);
// The options of the store over the job's servers, without those that differ between workers. `spec` is complete.
Result<kvstore::DistStoreOptions> dist_store_options(const job::Flags& flags, const job::JobSpec& spec,
                                                     const job::JobPlan& plan);

struct StoreSetup {
  const job::Flags& flags;   // the flags of this process, of which the member `job` comes from the spec
  const job::JobSpec& spec;  // the complete JobSpec
  const job::JobPlan& plan;  // plan of the spec
  const std::vector<size_t>& bucket_begin;
  job::Coordinator& coordinator;            // coordinator of all workers
  Waits& waits;                             // the waits of this process, which must outlive the store
  telemetry::Timeline* timeline = nullptr;  // where exchanges, messages and waits are recorded; null: not recorded
};

// Builds the store that connects the devices, in the devices' memory if the parameters are there. `servers`: the store
// over the job's servers; null if there are none. If the store itself connects the devices of several workers, all
// workers must call this function, and they meet in it. Code::kStartup or kPeerLost if they did not meet; kUsage if
// they have different numbers of devices.
Result<std::unique_ptr<kvstore::Store>> join_devices(const StoreSetup& setup, const Devices& devices,
                                                     exec::DeviceGroup& executors,
                                                     std::unique_ptr<kvstore::Store> servers = nullptr);

}  // namespace dtrain::role
