// How busy the GPUs of this process are, as measured by NVIDIA's driver. The numbers come from NVML, a library of the
// driver that is loaded at run time. If the library, a function, a GPU or a number is missing, the metrics are left out
// without an error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telemetry/registry.h"

namespace dtrain::telemetry {

inline constexpr const char* kNvml = "libnvidia-ml.so.1";

struct UsedGpu {
  std::string label;  // the GPU's label in the metrics: its number in --gpus
  // The GPU's address on the bus, "0000:3b:00.0". It is needed because NVML ignores CUDA_VISIBLE_DEVICES and numbers
  // the GPUs differently.
  std::string pci_bus_id;
};

// Sets the metrics of these GPUs in every snapshot, until the handle is destroyed. `library`: NVML's name or path.
[[nodiscard]] Registry::Handle collect_gpu_use(Registry& registry, std::vector<UsedGpu> gpus,
                                               const std::string& library = kNvml);

}  // namespace dtrain::telemetry
