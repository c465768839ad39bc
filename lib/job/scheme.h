// Checks that the flags of the scheme (--kv-store, --staleness, --backup, ...) fit together.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// Store, W and S are resolved. Code::kUsage names the flag: one that the store does not read, numbers that leave nobody
// to wait for, promises that the scheme cannot keep.
Result<> check_scheme(const Flags& flags);

// A hint to print at the start of a job whose learning rate may not suit its scheme: ASP and SSP make one update from
// each worker's batch. Empty if the scheme makes one update from the batches of all workers, or if there is one worker.
std::string learning_rate_hint(const JobFlags& job);

}  // namespace dtrain::job
