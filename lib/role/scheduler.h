// The scheduler's process.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/flags.h"

namespace dtrain::role {

// Brings the job together, completes its JobSpec, and returns when it is over. On stdout it prints, for a launcher to
// read, the line "dtrain scheduler HOST:PORT", and lines of progress (job/progress.h).
Result<int> run_scheduler(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
