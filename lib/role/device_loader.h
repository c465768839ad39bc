// GPUs, for a program that is linked without them: the module is loaded when somebody asks for it, so that the same
// program starts where there is neither CUDA nor a driver, and pays nothing for them where it trains on the CPU.
#pragma once

#include <memory>
#include <string>

#include "exec/device_module.h"

namespace dtrain::role {

// Beside the executable.
Result<std::string> device_module_path();

// The module at `path`, which has at least one device. Code::kDevice, with the reason and the way to do without GPUs,
// if there is no such file, no CUDA library that it needs, no driver or no device. A loaded module stays until the
// process ends: CUDA's libraries have threads of their own.
Result<std::shared_ptr<exec::DeviceModule>> load_devices(const std::string& path);

}  // namespace dtrain::role
