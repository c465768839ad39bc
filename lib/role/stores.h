// The store of a worker, from the job's description: what joins its devices, and what is behind them.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/waits.h"
#include "job/job_spec.h"
#include "kvstore/coordinator.h"
#include "kvstore/devices/device_store.h"
#include "kvstore/store.h"

namespace dtrain::role {

// Which device turns sums into weights.
kvstore::UpdateAt update_place(const job::Store& store);

struct StoreSetup {
  const job::Flags& flags;   // of this process
  const job::JobSpec& spec;  // complete
  const std::vector<size_t>& bucket_begin;
  kvstore::Coordinator& coordinator;  // of all workers
  Waits& waits;                       // outlives the store
};

// `servers`: the store over the job's servers; nullptr: it has none. Where the job's store joins the devices of several
// workers by itself, they meet here: all must come. Code::kStartup, kPeerLost: they did not; kUsage: they have
// different numbers of devices.
Result<std::unique_ptr<kvstore::Store>> join_devices(const StoreSetup& setup, std::unique_ptr<kvstore::Store> servers);

}  // namespace dtrain::role
