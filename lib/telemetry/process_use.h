// The resources of its host that this process uses, according to the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

#include "telemetry/registry.h"

namespace dtrain::telemetry {

struct ProcessUse {
  double cpu_s = 0;                // CPU time of all threads
  uint64_t memory_bytes = 0;       // resident memory
  uint64_t peak_memory_bytes = 0;  // the largest resident memory so far
  uint64_t read_bytes = 0;         // bytes read from disks; 0 if the kernel does not report it
};
ProcessUse process_use();

// The time for which the threads of this process were ready to run but had no core. Not thread-safe.
class CoreWait {
 public:
  // Reads the kernel's counters of all threads and returns their sum in seconds, which never decreases. For a thread
  // that has ended, the value from the last call is used. 0 if the kernel does not count these times.
  double update();

 private:
  // For each thread that existed in the last call: the time that it had waited for a core.
  std::map<pid_t, uint64_t> ns_of_thread_;
  uint64_t total_ns_ = 0;
};

// Adds the numbers of ProcessUse and CoreWait as metrics to every snapshot, until the handle is destroyed.
[[nodiscard]] Registry::Handle collect_process_use(Registry& registry);

}  // namespace dtrain::telemetry
