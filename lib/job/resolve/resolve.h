// Turns the flags that were given into the values that the job will use: sets defaults that depend on other flags, and
// refuses combinations that do not fit together.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags/flags.h"

namespace dtrain::job {

// Reads `flags.sources` to see which flags were given. Code::kUsage names the flags at fault. Idempotent.
Result<> resolve(Flags& flags);

}  // namespace dtrain::job
