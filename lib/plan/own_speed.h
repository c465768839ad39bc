// The speed that each worker of a run would have if it never waited for the others, computed from the phases of its
// training loop. The log cannot show these speeds: if workers wait for each other, the log shows the speed of the
// slowest worker for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/runs/run.h"

namespace dtrain::plan {

// Returns the samples/s of each of the `workers` workers, indexed by rank, over the epochs that have ended. The time
// does not include the waits for weights, which depend on the other workers, nor validation and checkpoints, which are
// not part of a step. Returns nullopt if the run had another number of workers, or if the run directory lacks the
// phases of a worker, for example because no epoch has ended or because the worker ran on another host.
std::optional<std::vector<double>> own_speeds(const observe::Run& run, int64_t workers);

}  // namespace dtrain::plan
