// DT_NCCL(ncclGetVersion(&version)): throws DeviceError unless NCCL says ncclSuccess. For calls without a communicator,
// and for results that only a bug can cause; what peers and networks cause is a Result (nccl_collective.h).
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// "remote process exited or ...: NCCL's own reason; likely: ...". `reason`: what ncclGetLastError says, or nothing.
std::string nccl_error_text(ncclResult_t result, std::string_view reason);

[[noreturn]] void throw_nccl_error(const char* file, int line, const char* call, ncclResult_t result);

}  // namespace dtrain::cuda

#define DT_NCCL(call)                                                         \
  do {                                                                        \
    const ncclResult_t dt_result = (call);                                    \
    if (dt_result != ncclSuccess) [[unlikely]] {                              \
      ::dtrain::cuda::throw_nccl_error(__FILE__, __LINE__, #call, dt_result); \
    }                                                                         \
  } while (false)
