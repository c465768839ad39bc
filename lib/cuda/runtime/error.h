// What goes wrong on a device.
#pragma once

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// "FILE:LINE: CALL: NAME (DESCRIPTION)". `status` is a cudaError_t: an int here, so that this header needs no CUDA.
[[noreturn]] void throw_cuda_error(const char* file, int line, const char* call, int status);

// A destructor's call failed, which nobody can act on: a line on stderr. Not for the end of the process, when the
// driver may be gone before static objects are. `status`: 0 is success in all of CUDA's libraries.
void report_failed_destroy(const char* what, int status) noexcept;

}  // namespace dtrain::cuda

// DT_CUDA(cudaMemcpyAsync(...)): throws DeviceError with the call's text unless it succeeds. Launches report earlier
// kernels' failures too, as every call does.
#define DT_CUDA(call)                                                                           \
  do {                                                                                          \
    if (const auto dt_status = (call); dt_status != cudaSuccess) [[unlikely]] {                 \
      ::dtrain::cuda::throw_cuda_error(__FILE__, __LINE__, #call, static_cast<int>(dt_status)); \
    }                                                                                           \
  } while (false)
