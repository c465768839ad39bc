#include "cuda/runtime/error.h"

#include <cuda_runtime_api.h>

#include <cstdio>

namespace dtrain::cuda {

void throw_cuda_error(const char* file, int line, const char* call, int status) {
  const auto error = static_cast<cudaError_t>(status);
  throw DeviceError(
      fmt::format("{}:{}: {}: {} ({})", file, line, call, cudaGetErrorName(error), cudaGetErrorString(error)));
}

void report_failed_destroy(const char* what, int status) noexcept {
  if (status == static_cast<int>(cudaErrorCudartUnloading)) return;
  std::fprintf(stderr, "releasing a %s failed: error %d\n", what, status);
}

}  // namespace dtrain::cuda
