// What a broken device, driver or library can cause, and a wrong call of ours: thrown by DT_CUDA, DT_CUDNN and DT_NCCL
// with the call's text. The executor or group that it came from is of no further use.
#pragma once

#include <stdexcept>

namespace dtrain::cuda {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dtrain::cuda
