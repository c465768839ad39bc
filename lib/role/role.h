// One process of a job, from its flags to its exit code.
#pragma once

#include "base/error.h"
#include "base/signals.h"
#include "job/flags/flags.h"
#include "role/worker/alone.h"

namespace dtrain::role {

// Trains alone in this process, or runs as a scheduler, server or worker, depending on flags.launch.role. Returns the
// exit code (job/process/exit_code.h); an Error means that the process failed. `on_run_dir`, if given, is called when a
// process that trains alone has its run directory.
Result<int> run_process(job::Flags flags, const Signals& signals, const OnRunDir& on_run_dir = nullptr);

}  // namespace dtrain::role
