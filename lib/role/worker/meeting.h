// Byte strings between the workers of a job, beyond what one all-gather is for.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/coordinator.h"

namespace dtrain::role {

// Every worker gives the address that a collective has made for it and gets those of all workers, by rank. All workers
// call it with the same `name`. Fails as Coordinator::all_gather does.
Result<std::vector<std::string>> exchange_addresses(job::Coordinator& coordinator, const std::string& name,
                                                    std::string mine);

// Sends a byte string of any length from worker 0 to all workers, kChunkBytes per barrier. All workers call it with the
// same `name`; `mine` is ignored except on worker 0. Fails as Coordinator::all_gather does.
inline constexpr size_t kChunkBytes = 128 << 10;
Result<std::string> broadcast(job::Coordinator& coordinator, const std::string& name, const std::string& mine);

}  // namespace dtrain::role
