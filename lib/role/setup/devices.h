// The devices of this process, as the flags name them: one backend for each, which compiles for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "exec/device_module.h"
#include "exec/executor.h"
#include "job/flags/flags.h"

namespace dtrain::role {

// Must outlive the executors that its backends compile.
class Devices {
 public:
  // Code::kDevice, with a hint at --cpus, if there are no GPUs here or not the ones that were asked for.
  static Result<Devices> open(const job::Flags& flags, const Log& log);

  // The backend of a device, by its index. All CPU devices share one backend.
  [[nodiscard]] exec::Backend& backend(size_t device) const { return *backends_[device % backends_.size()]; }
  // The GPU module; nullptr if the devices are CPU devices.
  [[nodiscard]] exec::DeviceModule* module() const { return module_.get(); }

 private:
  std::shared_ptr<exec::DeviceModule> module_;  // null: CPU devices
  std::vector<std::unique_ptr<exec::Backend>> backends_;
};

// "cpu(0)", "cpu(1)" or "gpu(3)", ...: the names of the devices in logs and summaries.
std::vector<std::string> device_names(const job::DeviceFlags& flags);

}  // namespace dtrain::role
