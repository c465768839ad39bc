// Errors of a broken device, driver or library, thrown by DT_CUDA, DT_CUDNN and DT_NCCL with the call's text. The
// executor or group that threw one must not be used anymore.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace dtrain::cuda {

class DeviceError : public ThrownError {
 public:
  // Code::kInternal for a call that only a bug in dtrain can make fail.
  explicit DeviceError(std::string message, Code code = Code::kDevice) : ThrownError({code, std::move(message), {}}) {}
};

}  // namespace dtrain::cuda
