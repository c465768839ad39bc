// What dtrain shows of a GPU while it trains: spans in a trace, and metrics.
#pragma once

#include <cstdint>

#include "machine.h"
#include "parts.h"
#include "product.h"

namespace dtrain::gpu {

// A trace of a few steps has the device's operators, updates and copies in order, within the host's steps.
Result<Outcome> trace_steps(Machine& machine, const Product& product);
// The driver's library knows the device that CUDA uses, and reports its memory and how busy it is.
Result<Outcome> use_of_device(Machine& machine);

}  // namespace dtrain::gpu
