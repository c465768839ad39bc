// What a broken device, driver or library can cause: thrown by DT_CUDA, DT_CUDNN and DT_NCCL with the call's text. The
// executor or group that it came from is of no further use.
#pragma once

#include "base/error.h"

namespace dtrain::cuda {

class DeviceError : public CheckFailed {
 public:
  using CheckFailed::CheckFailed;
};

}  // namespace dtrain::cuda
