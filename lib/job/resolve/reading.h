// Flags that say how data is read, and flags that replace training with a test of reading.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Flags;

// Resolves --test-io, --synthetic-on and --data-nthreads auto. With --test-io the job has one epoch. Code::kUsage if
// one of these flags would have no effect because of another flag.
Result<> resolve_reading(Flags& flags);

// One sentence for each flag about files or the order of records that has no effect because of other flags.
std::vector<std::string> reading_notes(const Flags& flags);

}  // namespace dtrain::job
