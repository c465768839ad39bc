// Errors of CUDA calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "cuda/runtime/device_error.h"

namespace dtrain::cuda {

// Throws "GPU 1 on HOST: WHAT IS WRONG: ADVICE [FILE:LINE: CALL: NAME]" with Code::kDevice for what can happen to a
// device, and "FILE:LINE: CALL: NAME (DESCRIPTION)" with kInternal for what only a bug can cause. `status` is a
// cudaError_t, passed as an int so that this header does not need CUDA.
[[noreturn]] void throw_cuda_error(const char* file, int line, const char* call, int status);

// Throws the error of a failed allocation of `bytes` bytes in `where` ("device memory", "pinned host memory"). The
// message says how many bytes were wanted, and how many are free on the device.
[[noreturn]] void throw_no_memory(size_t bytes, const char* where, int status);

// Throws an error of the current device: its work has not ended within `limit`. From then on device_hangs() returns
// true, and destructors neither wait for devices nor release what their work may use, because both would block forever.
[[noreturn]] void throw_hanging(std::chrono::milliseconds limit);
bool device_hangs() noexcept;
// For tests, after the work has ended: device_hangs() returns false again, so destructors release everything as usual.
void forget_hanging() noexcept;

// "13.1" for 13010, as CUDA counts its versions; empty for 0, which means unknown.
std::string cuda_version_text(int version);

// "3072 of 8192 MiB are free", for numbers of bytes.
std::string free_text(size_t free, size_t total);

// Reports a failed call in a destructor on stderr, because no caller can handle it. Silent for a device that failed,
// which another call reports, and at the end of the process, when the driver may be gone before static objects are.
// `status`: 0 is success in all CUDA libraries.
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
