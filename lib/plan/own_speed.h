// The speed of each worker of a run without waits for the others, from the phases of its step loop. The log cannot show
// this: if workers wait for each other, all of them log the speed of the slowest one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/runs/run.h"

namespace dtrain::plan {

// The samples/s of each of `workers` workers, indexed by rank, over the epochs that have ended. Excludes the waits for
// weights, which the other workers cause, and validations and checkpoints, which are not steps. Nullopt if the run had
// another number of workers, or if the run directory lacks the phases of a worker, for example because no epoch has
// ended or because the worker ran on another host.
std::optional<std::vector<double>> own_speeds(const observe::Run& run, int64_t workers);

}  // namespace dtrain::plan
