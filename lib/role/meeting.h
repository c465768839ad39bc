// Byte strings over the sums of the job: from every worker to all, as the ends of a group find each other; and from one
// to all.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/coordinator.h"

namespace dtrain::role {

// All workers call it with the same name; each gets what all have brought, by rank. As the coordinator's sum fails.
Result<std::vector<std::string>> exchange(kvstore::Coordinator& coordinator, const std::string& name,
                                          const std::string& mine);

// A byte string from worker 0 to all, of any length: 24 KB a barrier. All call it with the same name; what others than
// worker 0 bring does not count. As the coordinator's sum fails.
Result<std::string> broadcast(kvstore::Coordinator& coordinator, const std::string& name, const std::string& mine);

}  // namespace dtrain::role
