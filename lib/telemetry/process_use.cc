#include "telemetry/process_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace dtrain::telemetry {
namespace {

uint64_t resident_bytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t bytes_from_disks() {
  std::ifstream file("/proc/self/io");
  for (std::string key; file >> key;) {
    uint64_t value = 0;
    file >> value;
    if (key == "read_bytes:") return value;
  }
  return 0;
}

}  // namespace

ProcessUse process_use() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
          .memory_bytes = resident_bytes(),
          .peak_memory_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024,
          .read_bytes = bytes_from_disks()};
}

Registry::Handle collect_process_use(Registry& registry) {
  return registry.collect([](Registry& to) {
    const ProcessUse use = process_use();
    to.set(Metric::kCpuSeconds, use.cpu_s);
    to.set(Metric::kMemoryBytes, static_cast<double>(use.memory_bytes));
    to.set(Metric::kPeakMemoryBytes, static_cast<double>(use.peak_memory_bytes));
    to.set(Metric::kReadBytes, static_cast<double>(use.read_bytes));
  });
}

}  // namespace dtrain::telemetry
