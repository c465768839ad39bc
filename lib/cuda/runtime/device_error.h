// Errors of a broken device, driver or library, thrown by DT_CUDA, DT_CUDNN and DT_NCCL with the call's text. The
// executor or group that threw one must not be used anymore.
#pragma once

#include "base/error.h"

namespace dtrain::cuda {

class DeviceError : public CheckFailed {
 public:
  using CheckFailed::CheckFailed;
};

}  // namespace dtrain::cuda
