// Checks that the flags of the scheme (--kv-store, --staleness, --backup, ...) fit together.
#pragma once

#include <string>

#include "base/error.h"

namespace dtrain::job {

struct Flags;
struct JobFlags;

// Expects the store and the numbers of workers and servers to be resolved. Code::kUsage names a flag that the store
// does not read, a number that leaves no worker to wait for, or a guarantee that the scheme cannot give.
Result<> check_scheme(const Flags& flags);

// A hint to print at the start of a job whose learning rate may not suit its scheme: ASP and SSP make one update from
// each worker's batch. Empty for the other schemes, and if there is only one worker.
std::string learning_rate_hint(const JobFlags& job);

}  // namespace dtrain::job
