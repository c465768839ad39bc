// How fast each worker of a run was by itself, from the phases of its step loop. The log says less: in a run whose
// workers wait for each other, all of them log the speed of the slowest one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/runs/run.h"

namespace dtrain::plan {

// Samples/s by rank, of `workers` workers, over the epochs that have ended: without the waits for weights, which the
// other workers cause, and without validations and checkpoints, which are no steps. nullopt if the run had
// another number of workers, or if the run directory lacks the phases of one, for example because no epoch has ended or
// because the worker ran on another host.
std::optional<std::vector<double>> own_speeds(const observe::Run& run, int64_t workers);

}  // namespace dtrain::plan
