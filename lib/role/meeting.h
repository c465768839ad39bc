// Byte strings from every worker to all, over the sums of the job: how the ends of a group find each other.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/coordinator.h"

namespace dtrain::role {

// All workers call it with the same name; each gets what all have brought, by rank. As the coordinator's sum fails.
Result<std::vector<std::string>> exchange(kvstore::Coordinator& coordinator, const std::string& name,
                                          const std::string& mine);

}  // namespace dtrain::role
