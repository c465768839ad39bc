// A worker's process in a job.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/flags.h"

namespace dtrain::role {

// Joins, trains its share, says goodbye. 0 or 75; an Error otherwise.
Result<int> run_worker(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
