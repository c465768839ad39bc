// The flags of the optimizer itself; its learning rate is in resolve/schedule.h.
#pragma once

#include "base/error.h"
#include "job/flags/store.h"

namespace dtrain::job {

struct Flags;

// Code::kUsage for flags that are given but that the optimizer does not use. Other flags that it does not use are set
// to the values that have no effect, so that equal jobs have equal JobSpecs.
Result<> resolve_optimizer(Flags& flags);

// Code::kUsage if the optimizer needs the norms of whole arrays but this job does not run it on the workers, where
// whole arrays are.
Result<> check_norms(const Flags& flags, const Store& store);

}  // namespace dtrain::job
