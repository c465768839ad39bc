// Runs a worker process of a job.
#pragma once

#include "base/error.h"
#include "base/signals.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// Joins the job, trains on its share of the data and reports the outcome. Returns exit code 0, or 75 if it was stopped.
Result<int> run_worker(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
