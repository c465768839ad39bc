#include "role/setup/device_loader.h"

namespace dtrain::role {

namespace {

tl::unexpected<Error> no_devices(const std::string& reason) {
  return fail(Code::kDevice, "{}; {}", reason, kCudaModule.remedy);
}

}  // namespace

Result<std::shared_ptr<exec::DeviceModule>> load_device_module(const std::string& path) {
  const Result<void*> entry = load_module(kCudaModule, path);
  if (!entry) return fail(Code::kDevice, "{}", entry.error().message);
  return std::shared_ptr<exec::DeviceModule>(reinterpret_cast<exec::MakeDeviceModule>(*entry)());
}

Result<std::shared_ptr<exec::DeviceModule>> load_devices(const std::string& path) {
  DT_TRY(std::shared_ptr<exec::DeviceModule> module, load_device_module(path));
  const Result<int> count = module->device_count();
  if (!count) return no_devices(count.error().message);
  if (*count == 0) return no_devices("there is no GPU");
  return module;
}

}  // namespace dtrain::role
