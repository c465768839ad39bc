// The flags of the learning rate and its schedule.
#pragma once

#include "base/error.h"

namespace dtrain::job {

struct Flags;

// Sets the rate and the schedule that the flags ask for. Code::kUsage for flags that exclude each other, and for those
// that the optimizer does not use.
Result<> resolve_schedule(Flags& flags);

}  // namespace dtrain::job
