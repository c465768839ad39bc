#include "cuda/runtime/nccl_error.h"

#include <fmt/core.h>

namespace dtrain::cuda {

namespace {

bool mentions(std::string_view reason, std::string_view what) {
  return reason.find(what) != std::string_view::npos;
}

// The most frequent cause of a result. Causes that the user can fix are checked first.
std::string_view likely_cause(ncclResult_t result, std::string_view reason) {
  if (mentions(reason, "Duplicate GPU"))
    return "two ranks were given the same GPU, but NCCL needs a different GPU for each rank (--gpus)";
  if (mentions(reason, "insufficient") && mentions(reason, "driver"))
    return "the driver is older than the CUDA library";
  if (mentions(reason, "shm") || mentions(reason, "/dev/shm") || mentions(reason, "No space left")) {
    return "/dev/shm is too small: use docker run --shm-size=1g, or set NCCL_SHM_DISABLE=1";
  }
  switch (result) {
    case ncclUnhandledCudaError: return "no usable GPU or driver, or out of device memory: see nvidia-smi";
    case ncclSystemError:
      return "NCCL uses a network interface that other hosts cannot reach: name another interface (-i, "
             "NCCL_SOCKET_IFNAME)";
    case ncclRemoteError: return "another rank failed or died: see its log for the reason";
    case ncclInvalidArgument:
    case ncclInvalidUsage:
    case ncclInternalError: return "a bug in dtrain or in NCCL: run again with NCCL_DEBUG=WARN";
    case ncclInProgress: return "a rank did not join";
    default: return "run again with NCCL_DEBUG=WARN";
  }
}

}  // namespace

std::string nccl_error_text(ncclResult_t result, std::string_view reason) {
  while (!reason.empty() && (reason.back() == '\n' || reason.back() == ' ')) reason.remove_suffix(1);
  const std::string_view separator = reason.empty() ? "" : ": ";
  return fmt::format("NCCL: {}{}{} (likely: {})", ncclGetErrorString(result), separator, reason,
                     likely_cause(result, reason));
}

void throw_nccl_error(const char* file, int line, const char* call, ncclResult_t result) {
  throw DeviceError(fmt::format("{}:{}: {}: {}", file, line, call, nccl_error_text(result, ncclGetLastError(nullptr))));
}

}  // namespace dtrain::cuda
