// Loads the GPU module. The executable is not linked against it, so that it also starts on hosts without CUDA or a
// driver, and does not load the module when it trains on the CPU.
#pragma once

#include <memory>
#include <string>

#include "base/module.h"
#include "exec/device_module.h"

namespace dtrain::role {

// Loads the module at `path`, by default the one of this program. The result has at least one device. Code::kDevice,
// with the reason and advice on training without GPUs, if the file, a CUDA library that it needs, the driver or a
// device is missing. A loaded module stays until the process ends, because CUDA's libraries run threads of their own.
Result<std::shared_ptr<exec::DeviceModule>> load_devices(const std::string& path = kCudaModule.file);

// Like load_devices, but the host need not have a driver or a device.
Result<std::shared_ptr<exec::DeviceModule>> load_device_module(const std::string& path = kCudaModule.file);

}  // namespace dtrain::role
