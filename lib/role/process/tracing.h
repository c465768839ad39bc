// What a process of each role does about traces (telemetry/tracer.h), besides recording them.
#pragma once

#include "role/process/process.h"

namespace dtrain::role {

// The number of steps that SIGUSR2 asks for: that of --trace, else 0, which stands for the usual one.
uint64_t steps_to_trace(const job::Flags& flags);

// For a process that trains alone: its clock is that of its trace; SIGUSR2 and the live page trace the next steps; the
// end of the run writes a trace in progress, and trace.json.
void begin_own_trace(Process& process);
// Returns what is traced, as a sentence; an Error says why nothing is.
Result<std::string> trace_next_steps(Process& process);
void finish_own_trace(Process& process);

}  // namespace dtrain::role
