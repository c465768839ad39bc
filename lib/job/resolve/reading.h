// Flags that say how data is read beside, or instead of, training.
#pragma once

#include "base/error.h"
#include "job/flags/flags.h"

namespace dtrain::job {

// --test-io, --synthetic-on and --data-nthreads auto. With --test-io the job has one epoch. Code::kUsage: a flag that
// would have no effect beside another one.
Result<> resolve_reading(Flags& flags);

}  // namespace dtrain::job
