// The scheduler's process.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/flags/flags.h"

namespace dtrain::role {

// Waits for the job's processes to join, completes the JobSpec, and returns when the job is over. Prints to stdout, for
// a launcher to read, the line "dtrain scheduler HOST:PORT" and lines of progress (job/process/progress.h).
Result<int> run_scheduler(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
