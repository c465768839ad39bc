// Training in one process.
#pragma once

#include "base/error.h"
#include "base/signals.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// Returns the exit code: 0, or 75 if it was stopped.
Result<int> run_alone(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
