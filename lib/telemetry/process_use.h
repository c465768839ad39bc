// What this process uses of its host, as the kernel counts it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

#include "telemetry/registry.h"

namespace dtrain::telemetry {

struct ProcessUse {
  double cpu_s = 0;                // of all threads
  uint64_t memory_bytes = 0;       // resident
  uint64_t peak_memory_bytes = 0;  // the largest resident memory so far
  uint64_t read_bytes = 0;         // from disks; 0 where the kernel does not say
};
ProcessUse process_use();

// For how long the threads of this process were ready to run and had no core. Not thread-safe.
class CoreWait {
 public:
  // Reads the kernel's counters of all threads and returns the sum in seconds, which never falls. A thread that has
  // ended counts with what it had in the last call. 0 where the kernel does not count.
  double update();

 private:
  std::map<pid_t, uint64_t> ns_of_thread_;  // of the living ones, in the last call
  uint64_t total_ns_ = 0;
};

// The same as metrics of every snapshot, until the handle is destroyed.
[[nodiscard]] Registry::Handle collect_process_use(Registry& registry);

}  // namespace dtrain::telemetry
