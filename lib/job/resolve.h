// From what was given to what the job will use: defaults that depend on other flags, and what must not stand together.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// `flags.sources` says what was given. Code::kUsage names the flags. Idempotent.
Result<> resolve(Flags& flags);

}  // namespace dtrain::job
