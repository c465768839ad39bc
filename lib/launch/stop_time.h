// How long processes that are asked to stop have until they are killed.
#pragma once

#include <chrono>

namespace dtrain::launch {

// For the processes of a running job, from TERM to KILL: enough for a step of a large network, and for a checkpoint on
// a slow disk. The supervisor adds what the job's steps and checkpoints have been measured to take; --stop-timeout
// replaces all of it.
inline constexpr std::chrono::seconds kStopTime{120};
// For the processes of a host to end after SIGKILL: one that is stuck in the kernel can survive it.
inline constexpr std::chrono::seconds kReapAfterKill{5};

}  // namespace dtrain::launch
