// The devices of this process, as the flags name them: backends that compile for each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "exec/device_module.h"
#include "exec/executor.h"
#include "job/flags.h"

namespace dtrain::role {

// Outlives the executors that its backends compile.
class Devices {
 public:
  // Code::kDevice, offering --cpus, if there are no GPUs here, or not these.
  static Result<Devices> open(const job::Flags& flags, const Log& log);

  // Of the nth device. CPU devices have one backend in common.
  [[nodiscard]] exec::Backend& backend(size_t device) const { return *backends_[device % backends_.size()]; }
  // Of GPUs; nullptr: they are CPU devices.
  [[nodiscard]] exec::DeviceModule* module() const { return module_.get(); }

 private:
  std::shared_ptr<exec::DeviceModule> module_;  // none: CPU devices
  std::vector<std::unique_ptr<exec::Backend>> backends_;
};

// "cpu(0)", "cpu(1)" or "gpu(3)", ...: as logs and summaries name them.
std::vector<std::string> device_names(const job::DeviceFlags& flags);

}  // namespace dtrain::role
