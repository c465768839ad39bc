// A server's process.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/flags/flags.h"

namespace dtrain::role {

// Holds its slices of all parameters, sums gradients and updates weights until all workers are done.
Result<int> run_server(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
