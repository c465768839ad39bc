// Exchanges byte strings among the workers of a job, using the coordinator's sums.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/coordinator.h"

namespace dtrain::role {

// Every worker gives a byte string and gets those of all workers, by rank. All workers call it with the same `name`.
// Fails as Coordinator::sum does.
Result<std::vector<std::string>> exchange(job::Coordinator& coordinator, const std::string& name,
                                          const std::string& mine);

// Sends a byte string of any length from worker 0 to all workers, 24 KB per barrier. All workers call it with the same
// `name`; `mine` is ignored except on worker 0. Fails as Coordinator::sum does.
Result<std::string> broadcast(job::Coordinator& coordinator, const std::string& name, const std::string& mine);

}  // namespace dtrain::role
