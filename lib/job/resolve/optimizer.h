// The flags of the optimizer itself; its learning rate is in resolve/schedule.h.
#pragma once

#include "base/error.h"
#include "job/flags/store.h"

namespace dtrain::job {

struct Flags;

// Code::kUsage for flags that are given for an optimizer that does not use them. Sets those that it does not use and
// that are not given to the values that have no effect, so that equal jobs have equal JobSpecs.
Result<> resolve_optimizer(Flags& flags);

// Code::kUsage if the optimizer needs the norms of whole arrays and this job's update is not made where whole arrays
// are: on the workers.
Result<> check_norms(const Flags& flags, const Store& store);

}  // namespace dtrain::job
