// DT_NCCL(ncclGetVersion(&version)) throws DeviceError unless NCCL returns ncclSuccess. It is for calls without a
// communicator, and for errors that only a bug can cause. Errors caused by peers and networks are Results
// (nccl_collective.h).
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// The text "NCCL: remote process exited or ...: NCCL's own reason (likely: ...)". `reason`: the text of
// ncclGetLastError, or empty.
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
