#include "role/setup/device_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace dtrain::role {

namespace {

constexpr const char* kModule = "dtrain_cuda.so";

tl::unexpected<Error> no_devices(const std::string& reason) {
  return fail(Code::kDevice, "{}; without GPUs, train with --cpus N", reason);
}

Result<exec::MakeDeviceModule> load(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) {
    return no_devices(fmt::format("{}: {}: this build has no part for GPUs", path, std::strerror(errno)));
  }
  // Resolve all symbols at once: what is missing must show now, not in the middle of a step.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_devices(fmt::format("cannot load the part for GPUs: {}", ::dlerror()));
  void* entry = ::dlsym(library, exec::kMakeDeviceModule);
  if (entry == nullptr) return no_devices(fmt::format("{} is no part of dtrain: {}", path, ::dlerror()));
  return reinterpret_cast<exec::MakeDeviceModule>(entry);
}

}  // namespace

Result<std::string> device_module_path() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return fail(Code::kStartup, "cannot read /proc/self/exe: {}", std::strerror(errno));
  const std::string executable(path.data(), static_cast<size_t>(length));
  return executable.substr(0, executable.rfind('/') + 1) + kModule;
}

Result<std::shared_ptr<exec::DeviceModule>> load_devices(const std::string& path) {
  DT_TRY(const exec::MakeDeviceModule make, load(path));
  std::shared_ptr<exec::DeviceModule> module(make());
  const Result<int> count = module->device_count();
  if (!count) return no_devices(count.error().message);
  if (*count == 0) return no_devices("there is no GPU");
  return module;
}

}  // namespace dtrain::role
