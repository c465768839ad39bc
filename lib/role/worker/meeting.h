// Exchanges byte strings between the workers of a job in ways that a single all-gather does not provide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/coordinator.h"

namespace dtrain::role {

// Every worker passes the address that a collective has made for it, and gets the addresses of all workers, indexed by
// rank. All workers call it with the same `name`. Errors: see Coordinator::all_gather.
Result<std::vector<std::string>> exchange_addresses(job::Coordinator& coordinator, const std::string& name,
                                                    std::string mine);

// The same with another address for each worker. `members`: the ranks of all live workers, sorted. `for_each` is in
// this order, as are the returned addresses, which are those of the others for this worker. Code::kPeerLost: one of
// them was lost meanwhile; all others get this error.
Result<std::vector<std::string>> exchange_pair_addresses(job::Coordinator& coordinator, const std::string& name,
                                                         const std::vector<uint32_t>& members,
                                                         std::vector<std::string> for_each);

// Sends a byte string of any length from worker 0 to all workers, kChunkBytes per barrier. All workers call it with the
// same `name`; `mine` is ignored except on worker 0. Errors: see Coordinator::all_gather.
inline constexpr size_t kChunkBytes = 128 << 10;
Result<std::string> broadcast(job::Coordinator& coordinator, const std::string& name, const std::string& mine);

}  // namespace dtrain::role
