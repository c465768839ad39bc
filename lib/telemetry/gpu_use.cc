#include "telemetry/gpu_use.h"

#include <dlfcn.h>

#include <optional>
#include <utility>

namespace dtrain::telemetry {

namespace {

// The part of NVML's interface that is used. It has been compatible since CUDA 7, and is declared here because a host
// that builds dtrain may not have NVML's header.
using Device = void*;
struct Utilization {
  unsigned gpu, memory;  // percentage of the time, over at most the last second
};
struct Memory {
  unsigned long long total, free, used;  // the GPU's memory, in bytes
};
constexpr int kSuccess = 0, kOfTheChip = 0;

class Nvml {
 public:
  // Loads the library; null if it is missing or cannot be used.
  static std::shared_ptr<Nvml> load(const std::string& path) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    std::shared_ptr<Nvml> nvml(new Nvml(library));
    if (nvml->init_ == nullptr || nvml->find_ == nullptr || nvml->init_() != kSuccess) return nullptr;
    nvml->is_initialised_ = true;
    return nvml;
  }
  ~Nvml() {
    if (is_initialised_ && shutdown_ != nullptr) shutdown_();
    ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<Device> find(const std::string& pci_bus_id) const {
    Device device = nullptr;
    return find_(pci_bus_id.c_str(), &device) == kSuccess ? std::optional(device) : std::nullopt;
  }
  [[nodiscard]] std::optional<Utilization> utilization(Device device) const { return ask(utilization_, device); }
  [[nodiscard]] std::optional<Memory> memory(Device device) const { return ask(memory_, device); }
  [[nodiscard]] std::optional<unsigned> power_mw(Device device) const { return ask(power_, device); }
  [[nodiscard]] std::optional<unsigned> temperature(Device device) const {
    unsigned celsius = 0;
    const bool known = temperature_ != nullptr && temperature_(device, kOfTheChip, &celsius) == kSuccess;
    return known ? std::optional(celsius) : std::nullopt;
  }

 private:
  explicit Nvml(void* library) : library_(library) {}

  // The function's address; null if this version of the library lacks it.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  template <class Value>
  static std::optional<Value> ask(int (*function)(Device, Value*), Device device) {
    Value value{};
    return function != nullptr && function(device, &value) == kSuccess ? std::optional(value) : std::nullopt;
  }

  void* library_;
  bool is_initialised_ = false;
  int (*init_)() = function<int()>("nvmlInit_v2");
  int (*shutdown_)() = function<int()>("nvmlShutdown");
  int (*find_)(const char*, Device*) = function<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*utilization_)(Device, Utilization*) = function<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates");
  int (*memory_)(Device, Memory*) = function<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo");
  int (*power_)(Device, unsigned*) = function<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage");
  int (*temperature_)(Device, int, unsigned*) = function<int(Device, int, unsigned*)>("nvmlDeviceGetTemperature");
};

// Sets the metric, or removes it if there is no value, because an old value would be mistaken for a current one.
void set_or_remove(Registry& to, Metric metric, std::optional<double> value, const std::string& label) {
  if (value) {
    to.set(metric, *value, label);
  } else {
    to.remove(metric, label);
  }
}

void set_metrics(Registry& to, const Nvml& nvml, const UsedGpu& gpu) {
  const std::optional<Device> device = nvml.find(gpu.pci_bus_id);
  const auto set = [&](Metric metric, const auto& value, const auto& number) {
    set_or_remove(to, metric, value ? std::optional<double>(number(*value)) : std::nullopt, gpu.label);
  };
  using Use = std::optional<Utilization>;
  set(Metric::kGpuBusyShare, device ? nvml.utilization(*device) : Use{}, [](const Utilization& use) {
    constexpr double kPercent = 0.01;
    return kPercent * use.gpu;
  });
  const std::optional<Memory> memory = device ? nvml.memory(*device) : std::nullopt;
  set(Metric::kGpuMemoryBytes, memory, [](const Memory& all) { return static_cast<double>(all.used); });
  set(Metric::kGpuMemoryTotalBytes, memory, [](const Memory& all) { return static_cast<double>(all.total); });
  const std::optional<unsigned> none;
  set(Metric::kGpuPower, device ? nvml.power_mw(*device) : none, [](unsigned mw) { return mw / 1000.0; });
  set(Metric::kGpuTemperature, device ? nvml.temperature(*device) : none, [](unsigned celsius) { return celsius; });
}

}  // namespace

Registry::Handle collect_gpu_use(Registry& registry, std::vector<UsedGpu> gpus, const std::string& library) {
  const std::shared_ptr<Nvml> nvml = gpus.empty() ? nullptr : Nvml::load(library);
  if (nvml == nullptr) return {};
  return registry.collect([nvml, gpus = std::move(gpus)](Registry& to) {
    for (const UsedGpu& gpu : gpus) set_metrics(to, *nvml, gpu);
  });
}

}  // namespace dtrain::telemetry
