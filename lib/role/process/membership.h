// What a process reports about itself when it joins a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/spec/groups.h"
#include "role/setup/memory_need.h"
#include "rpc/job_types.h"

namespace dtrain::job {
struct Flags;
struct LaunchFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// The hosts and addresses that the workers of a job will report, indexed by rank. Known only if a launcher starts the
// workers; nullopt if they are started by hand or choose their address on their own host (--bind, --interface). The
// addresses of workers on other hosts, which a groups file may use, are not known and left empty. Code::kUsage: see
// job::read_host_assignment.
Result<std::optional<std::vector<job::WorkerPlace>>> places_to_be(const job::Flags& flags);

// A join request with the rank, host, flags and, for a worker, the names of its devices. The caller adds the address or
// the record counts.
rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role);

// The number of the job's processes that share a host with the process that received `reply`. Processes with the same
// address share a host. Containers on one host have their own addresses and limits, so each counts as a host.
HostShare host_share(const rpc::JoinReply& reply, rpc::Role role);

// Sets LaunchFlags::host_roles from `share`, unless a launcher has already set it to the number of servers and workers
// on this host.
void set_host_roles(const HostShare& share, job::LaunchFlags& launch);

}  // namespace dtrain::role
