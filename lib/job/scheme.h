// What the flags of section 4 of flags.md may say together.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// Store, W and S are resolved. Code::kUsage names the flag: one that the store does not read, numbers that leave nobody
// to wait for, promises that the scheme cannot keep.
Result<> check_scheme(const Flags& flags);

// A line for the start of a job whose learning rate wants a look (R-B4, distributed.md 2.8): ASP and SSP make an update
// of each worker's batch. Empty: the scheme makes one of all workers', or there is one worker.
std::string learning_rate_hint(const JobFlags& job);

}  // namespace dtrain::job
