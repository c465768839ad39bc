// Runs a server process.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/spec/job_spec.h"
#include "kvstore/server/shard.h"
#include "role/setup/network.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// The options with which a server's shard serves its slices, without the callbacks for reports. `spec` is complete.
Result<kvstore::ShardOptions> shard_options(const job::Flags& flags, const job::JobSpec& spec, const Network& network,
                                            uint32_t rank);

// Holds its slices of all parameters, sums gradients and updates weights until all workers are done.
Result<int> run_server(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
