// Flags that say how data is read beside, or instead of, training.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Flags;

// --test-io, --synthetic-on and --data-nthreads auto. With --test-io the job has one epoch. Code::kUsage: a flag that
// would have no effect beside another one.
Result<> resolve_reading(Flags& flags);

// Flags about the files and the order of records that have no effect beside others: a sentence for each.
std::vector<std::string> reading_notes(const Flags& flags);

}  // namespace dtrain::job
