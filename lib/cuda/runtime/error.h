// Errors of CUDA calls.
#pragma once

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// Throws "FILE:LINE: CALL: NAME (DESCRIPTION)". `status` is a cudaError_t, passed as an int so that this header does
// not need CUDA.
[[noreturn]] void throw_cuda_error(const char* file, int line, const char* call, int status);

// Reports a failed call in a destructor on stderr, because no caller can handle it. Silent at the end of the process,
// when the driver may be gone before static objects are. `status`: 0 is success in all CUDA libraries.
void report_failed_destroy(const char* what, int status) noexcept;

}  // namespace dtrain::cuda

// DT_CUDA(cudaMemcpyAsync(...)): throws DeviceError with the call's text unless it succeeds. As with every CUDA call,
// the error may be that of an earlier kernel.
#define DT_CUDA(call)                                                                           \
  do {                                                                                          \
    if (const auto dt_status = (call); dt_status != cudaSuccess) [[unlikely]] {                 \
      ::dtrain::cuda::throw_cuda_error(__FILE__, __LINE__, #call, static_cast<int>(dt_status)); \
    }                                                                                           \
  } while (false)
