// The device memory that an executor takes, computed without a device.
#pragma once

#include "exec/device_module.h"

namespace dtrain::cuda {

// Implements DeviceModule::planned_bytes.
Result<exec::DeviceModule::PlannedBytes> planned_bytes(const graph::Graph& graph, const exec::Options& options);

}  // namespace dtrain::cuda
