// How the processes of each role start and finish traces (telemetry/tracer.h).
#pragma once

#include "role/process/process.h"

namespace dtrain::role {

// The number of steps to trace after SIGUSR2: that of --trace, else 0, which means the default.
uint64_t steps_to_trace(const job::Flags& flags);

// Begins tracing for a process that trains alone, whose own clock is the clock of the trace. SIGUSR2 and the live page
// trace the next steps. At the end of the run, a trace in progress and trace.json are written.
void begin_own_trace(Process& process);
// Returns a sentence that describes what is traced, or an Error that says why nothing is.
Result<std::string> trace_next_steps(Process& process);
void finish_own_trace(Process& process);

}  // namespace dtrain::role
