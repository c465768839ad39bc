// What this process uses of its machine, as the kernel counts it.
#pragma once

#include <cstdint>

#include "telemetry/registry.h"

namespace dtrain::telemetry {

struct ProcessUse {
  double cpu_s = 0;                // of all threads
  uint64_t memory_bytes = 0;       // resident
  uint64_t peak_memory_bytes = 0;  // the largest resident memory so far
  uint64_t read_bytes = 0;         // from disks; 0 where the kernel does not say
};
ProcessUse process_use();

// The same as metrics of every snapshot, until the handle is destroyed.
[[nodiscard]] Registry::Handle collect_process_use(Registry& registry);

}  // namespace dtrain::telemetry
