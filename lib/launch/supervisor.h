// Runs the processes of a job, on this host and on others, until they end: starts them, shows what they print, passes
// signals on, and leaves no process behind.
//
// Expects two kinds of lines on the scheduler's stdout: first "dtrain scheduler HOST:PORT", the address that the other
// processes are started with, and later, once all have joined, repeated lines "live ..." (job/process/progress.h). All
// other output of processes is shown with the prefix "[worker 3 host] ".
//
// A failure before the first "live" line is a failed start, and the other processes are stopped immediately. After a
// later failure they get time to detect it themselves, so that each can report what it lost and rank 0 can save its
// state. See docs/protocol.md, "Failure".
#pragma once

#include "base/error.h"
#include "launch/job.h"
#include "launch/screen.h"

namespace dtrain::launch {

// Runs the job and returns when all processes have ended. A host that cannot be reached, or lacks the executable, is a
// failed start (Code::kStartup); if a host is lost later, its processes count as lost.
//
// TERM, INT, USR1 and HUP stop the job: TERM is sent to all processes, which get time to end their step and, on rank 0,
// to write a checkpoint; then KILL is sent. A second INT kills them immediately. USR2 is passed on. The cause of the
// end is printed last: the first error of the process that failed first, or which process was killed and what the
// others noticed. Returns an Error only if nothing could be started. The calling process must have a single thread.
Result<JobEnd> supervise(const Job& job, Screen& screen);

}  // namespace dtrain::launch
