#include "telemetry/process_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

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

double CoreWait::update() {
  std::map<pid_t, uint64_t> now;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = task.path().filename();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    uint64_t ran_ns = 0, waited_ns = 0;
    // The thread may have ended since its name was read.
    if (!(std::ifstream(task.path() / "schedstat") >> ran_ns >> waited_ns)) continue;
    const auto before = ns_of_thread_.find(thread);
    // If the value has decreased, the id now belongs to another thread.
    const bool is_same = before != ns_of_thread_.end() && before->second <= waited_ns;
    total_ns_ += waited_ns - (is_same ? before->second : 0);
    now.emplace(thread, waited_ns);
  }
  ns_of_thread_ = std::move(now);
  return 1e-9 * static_cast<double>(total_ns_);
}

Registry::Handle collect_process_use(Registry& registry) {
  return registry.collect([core_wait = CoreWait()](Registry& to) mutable {
    to.set(Metric::kCoreWaitSeconds, core_wait.update());
    const ProcessUse use = process_use();
    to.set(Metric::kCpuSeconds, use.cpu_s);
    to.set(Metric::kMemoryBytes, static_cast<double>(use.memory_bytes));
    to.set(Metric::kPeakMemoryBytes, static_cast<double>(use.peak_memory_bytes));
    to.set(Metric::kReadBytes, static_cast<double>(use.read_bytes));
  });
}

}  // namespace dtrain::telemetry
