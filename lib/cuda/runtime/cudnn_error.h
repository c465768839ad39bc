// DT_CUDNN(cudnnSetStream(handle, stream)): throws DeviceError unless cuDNN returns CUDNN_STATUS_SUCCESS.
#pragma once

#include <cudnn_graph.h>

#include <string>

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// The text of a status, for example "CUDNN_STATUS_BAD_PARAM: the reason that cuDNN gives". The reason is the last one
// in the calling thread.
std::string cudnn_reason(cudnnStatus_t status);

[[noreturn]] void throw_cudnn_error(const char* file, int line, const char* call, cudnnStatus_t status);

}  // namespace dtrain::cuda

#define DT_CUDNN(call)                                                         \
  do {                                                                         \
    const cudnnStatus_t dt_status = (call);                                    \
    if (dt_status != CUDNN_STATUS_SUCCESS) [[unlikely]] {                      \
      ::dtrain::cuda::throw_cudnn_error(__FILE__, __LINE__, #call, dt_status); \
    }                                                                          \
  } while (false)
