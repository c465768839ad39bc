#include "job/process/exit_code.h"

namespace dtrain::job {

int exit_code(Code code) {
  switch (code) {
    case Code::kInternal: return kExitInternal;
    case Code::kUsage: return kExitUsage;
    case Code::kStartup:
    case Code::kUnavailable: return kExitStartup;
    case Code::kSchedulerLost: return kExitSchedulerLost;
    case Code::kPeerLost: return kExitPeerLost;
    case Code::kDenied: return kExitDenied;
    case Code::kData:
    case Code::kNotFound: return kExitData;
    case Code::kDevice: return kExitDevice;
    case Code::kPreempted: return kExitPreempted;
  }
  return kExitInternal;
}

}  // namespace dtrain::job
