#include "cuda/runtime/error.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/host_limits.h"

namespace dtrain::cuda {

namespace {

constexpr size_t kMiB = 1 << 20;

struct Cause {
  cudaError_t error;
  std::string_view what, advice;
};

constexpr std::string_view kReset =
    "'dmesg | grep Xid' and 'nvidia-smi -q' show more; the GPU may have to be reset or the host restarted";
constexpr std::string_view kDriver = "install the driver that this version of CUDA needs, and restart the host";
constexpr std::string_view kBroke =
    "'dmesg | grep Xid' shows whether the hardware failed; otherwise run again with CUDA_LAUNCH_BLOCKING=1 and report "
    "it";

// The errors that can occur on a device in use, with advice for each. All other errors of CUDA are bugs of the caller.
constexpr std::array kCauses = {
    Cause{cudaErrorMemoryAllocation, "out of memory",
          "use a smaller --batch-size, or end other programs on this GPU (nvidia-smi lists them)"},
    Cause{cudaErrorInsufficientDriver, "the driver is too old", kDriver},
    Cause{cudaErrorSystemDriverMismatch, "the driver does not fit its own kernel module", kDriver},
    Cause{cudaErrorCompatNotSupportedOnDevice, "the driver is too old for this GPU", kDriver},
    Cause{cudaErrorSystemNotReady, "the GPUs of this host are not ready",
          "start nvidia-fabricmanager, or wait until the host has started"},
    Cause{cudaErrorDevicesUnavailable, "another process uses it exclusively, or it was lost",
          "nvidia-smi lists its processes and its compute mode"},
    Cause{cudaErrorNoDevice, "it was lost", kReset},
    Cause{cudaErrorNoKernelImageForDevice, "it is older than this program supports", "use a GPU of sm_80 or later"},
    Cause{cudaErrorECCUncorrectable, "an uncorrectable memory error (ECC)", kReset},
    Cause{cudaErrorNvlinkUncorrectable, "an uncorrectable error of its NVLink", kReset},
    Cause{cudaErrorContained, "a memory error that was contained to this process", kReset},
    Cause{cudaErrorHardwareStackError, "a hardware error", kReset},
    Cause{cudaErrorExternalDevice, "another device that it waits for failed", kReset},
    Cause{cudaErrorOperatingSystem, "the operating system refused a call of the driver", kReset},
    Cause{cudaErrorUnknown, "the driver reports an unknown error", kReset},
    Cause{cudaErrorLaunchTimeout, "a kernel ran longer than the display's driver allows",
          "train on a GPU without a display"},
    Cause{cudaErrorIllegalAddress, "its work was ended by an illegal memory access", kBroke},
    Cause{cudaErrorMisalignedAddress, "its work was ended by a misaligned memory access", kBroke},
    Cause{cudaErrorLaunchFailure, "its work was ended by a fault", kBroke}};

const Cause* cause_of(cudaError_t error) {
  const auto found = std::ranges::find(kCauses, error, &Cause::error);
  return found == kCauses.end() ? nullptr : &*found;
}

// "(it supports CUDA 12.2, and this program needs 13.0)"; empty for errors that are not the driver's.
std::string versions(cudaError_t error) {
  if (error != cudaErrorInsufficientDriver && error != cudaErrorCompatNotSupportedOnDevice) return "";
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime) != cudaSuccess) return "";
  if (driver == 0) return "";  // there is no driver
  return fmt::format(" (it supports CUDA {}, and this program needs {})", cuda_version_text(driver),
                     cuda_version_text(runtime));
}

std::string this_device() {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return fmt::format("a GPU on {}", host_name());
  return fmt::format("GPU {} on {}", device, host_name());
}

}  // namespace

std::string cuda_version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string free_text(size_t free, size_t total) {
  return fmt::format("{} of {} MiB are free", free / kMiB, total / kMiB);
}

void throw_cuda_error(const char* file, int line, const char* call, int status) {
  const auto error = static_cast<cudaError_t>(status);
  const Cause* const cause = cause_of(error);
  if (cause == nullptr) {
    throw DeviceError(
        fmt::format("{}:{}: {}: {} ({})", file, line, call, cudaGetErrorName(error), cudaGetErrorString(error)),
        Code::kInternal);
  }
  throw DeviceError(fmt::format("{}: {}{}: {} [{}:{}: {}: {}]", this_device(), cause->what, versions(error),
                                cause->advice, file, line, call, cudaGetErrorName(error)));
}

void throw_no_memory(size_t bytes, const char* where, int status) {
  if (static_cast<cudaError_t>(status) != cudaErrorMemoryAllocation)
    throw_cuda_error(__FILE__, __LINE__, where, status);
  size_t free = 0, total = 0;
  std::string there;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    there = fmt::format("; {} on the GPU", free_text(free, total));
  }
  throw DeviceError(fmt::format("{}: out of memory: {} MiB of {} were wanted{}: {}", this_device(),
                                (bytes + kMiB - 1) / kMiB, where, there, cause_of(cudaErrorMemoryAllocation)->advice));
}

namespace {

std::atomic<bool> hangs = false;

}  // namespace

void throw_hanging(std::chrono::milliseconds limit) {
  hangs = true;
  throw DeviceError(fmt::format("{}: its work has not ended within {} s: {}", this_device(),
                                static_cast<double>(limit.count()) / 1000, kReset));
}

bool device_hangs() noexcept {
  return hangs;
}

void forget_hanging() noexcept {
  hangs = false;
}

void report_failed_destroy(const char* what, int status) noexcept {
  const auto error = static_cast<cudaError_t>(status);
  if (error == cudaErrorCudartUnloading || cause_of(error) != nullptr) return;
  std::fprintf(stderr, "releasing a %s failed: error %d\n", what, status);
}

}  // namespace dtrain::cuda
