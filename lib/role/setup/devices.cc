#include "role/setup/devices.h"

#include <filesystem>
#include <system_error>

#include "base/host_limits.h"
#include "exec/device_group.h"
#include "job/flags/flags.h"
#include "job/resolve/resolve.h"
#include "role/setup/device_loader.h"
#include "role/setup/threads.h"

namespace dtrain::role {
namespace {

// The file that caches the plans for GPUs. Empty, with a warning, if its directory cannot be created.
std::string plan_cache(const std::string& cache_dir, const Log& log) {
  if (cache_dir.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (!error) return cache_dir + "/cudnn-plans.json";
  log.warn("{}: {}: cuDNN plans cannot be cached in this directory, so each start computes them again", cache_dir,
           error.message());
  return "";
}

void warn_if_shared(const GpuClaim& claim, int gpu, const Log& log) {
  const std::optional<pid_t> other = claim.other_process();
  if (!other) return;
  log.warn(
      "GPU {} is also used by {} of this user on {}: both run more slowly, and they share its memory; --gpus chooses "
      "other GPUs",
      gpu, *other == 0 ? "a process in another container" : fmt::format("process {}", *other), host_name());
}

}  // namespace

Result<Devices> Devices::open(const job::Flags& flags, const Log& log, exec::PlanSettings plans) {
  Devices devices;
  if (flags.device.gpus.empty()) {
    devices.backends_.push_back(exec::make_cpu_backend());
    return devices;
  }
  DT_TRY(devices.module_, load_devices(), "opening --gpus");
  plans.cache = plan_cache(flags.launch.cache_dir, log);
  plans.deterministic |= flags.job.scheme.deterministic;
  for (const int64_t gpu : flags.device.gpus.numbers) {
    const int number = static_cast<int>(gpu);
    DT_TRY(const std::string name, devices.module_->describe(number), "opening --gpus");
    log.info("GPU {}: {}", gpu, name);
    DT_TRY(std::string bus, devices.module_->pci_bus_id(number), "opening --gpus");
    devices.claims_.emplace_back(flags.launch.claim_dir, bus);
    warn_if_shared(devices.claims_.back(), number, log);
    devices.gpus_.push_back({.label = std::to_string(gpu), .pci_bus_id = std::move(bus)});
    DT_TRY(devices.backends_.emplace_back(), devices.module_->make_backend(number, plans, log));
  }
  return devices;
}

Result<> find_gpus(job::GpuList& gpus, const std::string& module) {
  if (gpus.has_numbers()) return {};
  DT_TRY(const std::shared_ptr<exec::DeviceModule> devices, load_devices(module), "opening --gpus");
  DT_TRY(const int count, devices->device_count(), "opening --gpus");
  return job::set_numbers(gpus, count);
}

Result<> find_gpus(job::DeviceFlags& flags) {
  if (flags.gpus.has_numbers()) return {};
  DT_TRY_VOID(find_gpus(flags.gpus));
  return job::check_work_loads(flags);
}

std::vector<std::string> device_names(const job::DeviceFlags& flags) {
  std::vector<std::string> names;
  for (int64_t cpu = 0; cpu < flags.cpus && flags.gpus.empty(); cpu++) names.push_back(fmt::format("cpu({})", cpu));
  for (const int64_t gpu : flags.gpus.numbers) names.push_back(fmt::format("gpu({})", gpu));
  if (!flags.gpus.has_numbers()) names.emplace_back("gpu(all)");
  return names;
}

size_t device_count(const job::Flags& flags) {
  return static_cast<size_t>(flags.device.count());
}

Result<std::vector<int64_t>> device_batches(const job::Flags& flags) {
  std::vector<double> weights = flags.device.work_load_list;
  if (weights.empty()) weights.assign(device_count(flags), 1.0);
  return exec::split_batch(flags.job.batch_size, weights);
}

Type type_of(const std::string& dtype) {
  if (dtype == type_name(Type::kFloat16)) return Type::kFloat16;
  return dtype == type_name(Type::kBfloat16) ? Type::kBfloat16 : Type::kFloat32;
}

bool parameters_on_device(const job::Flags& flags) {
  if (flags.device.gpus.empty()) return false;
  return !flags.distributed() || job::store_of(flags.job).sum == job::Sum::kNccl;
}

exec::Options executor_options(const job::Flags& flags, exec::Options::Purpose purpose) {
  exec::Options options;
  options.purpose = purpose;
  options.batch_size = flags.job.batch_size;
  options.inputs = {{.shape = flags.job.network.image_shape}};
  options.threads = plan_threads(flags).device;
  options.winograd = flags.device.winograd;
  options.dtype = type_of(flags.job.dtype);
  options.tf32 = flags.device.tf32;
  options.same_batch = flags.device.synthetic_on_device;
  options.parameters_on_device = parameters_on_device(flags);
  return options;
}

}  // namespace dtrain::role
