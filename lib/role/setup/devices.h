// The devices of this process, as the flags name them. Each has a backend that compiles graphs for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/module.h"
#include "exec/device_module.h"
#include "exec/executor.h"
#include "role/setup/gpu_claim.h"
#include "telemetry/gpu_use.h"
#include "tensor/type.h"

namespace dtrain::job {
struct Flags;
struct DeviceFlags;
struct GpuList;
}  // namespace dtrain::job

namespace dtrain::role {

// The devices and their backends. Must outlive the executors that the backends compile.
class Devices {
 public:
  // `plans` says which files of the run have the choices of GPUs. The flags add the user's cache, and --deterministic.
  // Code::kDevice, with a hint at --cpus, if this host has no GPUs or lacks the requested ones. Warns if another
  // process of this user uses one of the GPUs, which is permitted.
  static Result<Devices> open(const job::Flags& flags, const Log& log, exec::PlanSettings plans = {});

  // The backend of the device with this index. All CPU devices share one backend.
  [[nodiscard]] exec::Backend& backend(size_t device) const { return *backends_[device % backends_.size()]; }
  // The GPU module; null if the devices are CPU devices.
  [[nodiscard]] exec::DeviceModule* module() const { return module_.get(); }
  // The GPUs, for collect_gpu_use; empty if the devices are CPU devices.
  [[nodiscard]] const std::vector<telemetry::UsedGpu>& gpus() const { return gpus_; }

 private:
  std::shared_ptr<exec::DeviceModule> module_;  // the GPU module; null if the devices are CPU devices
  std::vector<std::unique_ptr<exec::Backend>> backends_;
  std::vector<telemetry::UsedGpu> gpus_;
  std::vector<GpuClaim> claims_;
};

// Finds the numbers of --gpus all; does nothing if the flag gives numbers. To be called by a process that has devices,
// before anything depends on their number. Code::kDevice as for Devices::open; kUsage if there are fewer GPUs than the
// host has workers, or if --work-load-list does not fit. `module`: see device_loader.h.
Result<> find_gpus(job::GpuList& gpus, const std::string& module = kCudaModule.file);
Result<> find_gpus(job::DeviceFlags& flags);

// The names of the devices in logs and summaries: "cpu(0)", "cpu(1)" or "gpu(3)", ...; "gpu(all)" for --gpus all
// in a process that has no devices, such as the scheduler.
std::vector<std::string> device_names(const job::DeviceFlags& flags);

// The number of this process's devices, and how its batch is split among them. Code::kUsage if there are more devices
// than images.
size_t device_count(const job::Flags& flags);
Result<std::vector<int64_t>> device_batches(const job::Flags& flags);

// The type that --dtype names; the table of flags has already checked the text.
Type type_of(const std::string& dtype);

// Whether the weights stay in the devices' memory and are summed and updated there. True on GPUs, unless the store is
// distributed and something other than NCCL sums the gradients.
bool parameters_on_device(const job::Flags& flags);

// The options with which the executor of one device is compiled. The caller sets the device's part of the batch and the
// options that depend on the data (Dataset::normalisation).
exec::Options executor_options(const job::Flags& flags, exec::Options::Purpose purpose);

}  // namespace dtrain::role
