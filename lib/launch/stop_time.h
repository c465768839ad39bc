// The time that processes have between the request to stop and being killed.
#pragma once

#include <chrono>

namespace dtrain::launch {

// The time between TERM and KILL for the processes of a running job: enough for a step of a large network, and for a
// checkpoint on a slow disk. The supervisor adds the measured time of the job's steps and checkpoints; --stop-timeout
// replaces the total.
inline constexpr std::chrono::seconds kStopTime{120};
// The time that the processes of a host have to end after SIGKILL. It is limited because a process that is stuck in the
// kernel can survive SIGKILL.
inline constexpr std::chrono::seconds kReapAfterKill{5};

}  // namespace dtrain::launch
