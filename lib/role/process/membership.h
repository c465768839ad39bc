// What a process tells the scheduler about itself when it joins a job.
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

// This host's host name, by which a groups file may name its workers.
std::string host_name();

// The hosts and addresses that the workers of a job will report, by rank. Known only if a launcher starts them; nullopt
// if they are started by hand or choose their address on their own host (--bind, --interface). The addresses of workers
// on other hosts, which a groups file may use, are not known and left empty. Code::kUsage: as
// job::read_host_assignment.
Result<std::optional<std::vector<job::WorkerPlace>>> places_to_be(const job::Flags& flags);

// A request with rank, host, flags and, for a worker, the names of its devices; the caller adds its address or its
// record counts.
rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role);

// How many processes of the job share the host of the process that `reply` answers: those with its address. Containers
// of one host have addresses and limits of their own, so each counts as a host.
HostShare host_share(const rpc::JoinReply& reply, rpc::Role role);

// If no launcher has said how many servers and workers share this host (LaunchFlags::host_roles), `share` does.
void set_host_roles(const HostShare& share, job::LaunchFlags& launch);

}  // namespace dtrain::role
