// The process's exit codes.
#pragma once

#include "base/error.h"

namespace dtrain::job {

inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitStartup = 3;
inline constexpr int kExitSchedulerLost = 4;
inline constexpr int kExitPeerLost = 5;
inline constexpr int kExitDenied = 6;
inline constexpr int kExitData = 7;
inline constexpr int kExitDevice = 8;
inline constexpr int kExitPreempted = 75;

int exit_code(Code code);

}  // namespace dtrain::job
