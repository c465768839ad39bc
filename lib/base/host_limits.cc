#include "base/host_limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "base/file.h"

namespace dtrain {
namespace {

// The number after `key` in the line that begins with it ("inactive_file 4096", "MemAvailable:   123 kB").
double value_in(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr);
  }
  return 0;
}

// The limit that the text states. nullopt if the text is empty or means that there is no limit ("max", and -1 in
// version 1).
std::optional<double> limit_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || value < 0) return std::nullopt;
  return value;
}

std::optional<double> limit_in(const std::string& path) {
  return limit_of(read_file(path).value_or(""));
}

void limit_cores(double cores, GroupLimits& limits) {
  if (cores > 0 && (limits.cores == 0 || cores < limits.cores)) limits.cores = cores;
}

void limit_memory(double bytes, double used, double inactive, GroupLimits& limits) {
  if (bytes <= 0 || (limits.memory_bytes > 0 && bytes >= limits.memory_bytes)) return;
  limits.memory_bytes = bytes;
  limits.memory_used_bytes = std::max(0.0, used - inactive);
}

// Reads the limits of a group in version 2, where one group has all kinds of limits.
void look_at_group(const std::string& group, GroupLimits& limits) {
  // The text of cpu.max, such as "200000 100000": microseconds of processor time, and of the period in which they may
  // be used.
  const std::string cpu = read_file(group + "/cpu.max").value_or("");
  const auto quota = limit_of(cpu), period = limit_of(cpu.substr(std::min(cpu.size(), cpu.find(' '))));
  if (quota && period && *period > 0) limit_cores(*quota / *period, limits);
  if (const auto bytes = limit_in(group + "/memory.max")) {
    limit_memory(*bytes, limit_in(group + "/memory.current").value_or(0),
                 value_in(read_file(group + "/memory.stat").value_or(""), "inactive_file "), limits);
  }
}

// Reads the processor limit of a group in version 1, where each kind of limit has a separate tree.
void look_at_cpu_group(const std::string& group, GroupLimits& limits) {
  const auto quota = limit_in(group + "/cpu.cfs_quota_us"), period = limit_in(group + "/cpu.cfs_period_us");
  if (quota && period && *period > 0) limit_cores(*quota / *period, limits);
}

void look_at_memory_group(const std::string& group, GroupLimits& limits) {
  if (const auto bytes = limit_in(group + "/memory.limit_in_bytes")) {
    limit_memory(*bytes, limit_in(group + "/memory.usage_in_bytes").value_or(0),
                 value_in(read_file(group + "/memory.stat").value_or(""), "total_inactive_file "), limits);
  }
}

// Calls `look` for a group and its parents. In a container, the groups' tree may begin at the container's own group,
// although the process is listed with its path on the host. Then only the top of the tree exists.
template <class Look>
void for_group_and_parents(const std::string& tree, std::string path, const Look& look) {
  while (path.size() > 1) {
    look(tree + path);
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  look(tree);
}

bool names_kind(const std::string& kinds, const std::string& kind) {
  return ("," + kinds + ",").find("," + kind + ",") != std::string::npos;
}

}  // namespace

GroupLimits group_limits(const GroupFiles& files) {
  GroupLimits limits;
  // The lines are "0::/PATH" in version 2 and "4:cpu,cpuacct:/PATH" in version 1; a host may use both.
  std::istringstream lines(read_file(files.process).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (kinds.empty()) {
      for_group_and_parents(files.groups, path, [&](const std::string& group) { look_at_group(group, limits); });
    }
    if (names_kind(kinds, "cpu")) {
      for_group_and_parents(files.groups + "/cpu", path,
                            [&](const std::string& group) { look_at_cpu_group(group, limits); });
    }
    if (names_kind(kinds, "memory")) {
      for_group_and_parents(files.groups + "/memory", path,
                            [&](const std::string& group) { look_at_memory_group(group, limits); });
    }
  }
  return limits;
}

int usable_cores(const GroupLimits& limits) {
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (limits.cores <= 0 || limits.cores >= processors) return processors;
  return std::max(1, static_cast<int>(std::lround(limits.cores)));
}

std::vector<int> cpus_near(const std::string& pci_bus_id, const std::string& devices) {
  std::string name = pci_bus_id;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return {};
  std::vector<int> cpus;
  // The kernel writes CPUs and ranges of CPUs, such as "0-15,32-47".
  std::istringstream ranges(read_file(devices + "/" + name + "/local_cpulist").value_or(""));
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const int numbers = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (numbers < 1 || first < 0) return {};
    if (numbers == 1) last = first;
    for (int cpu = first; cpu <= std::min(last, CPU_SETSIZE - 1); cpu++) {
      if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

UsableMemory usable_memory(const GroupLimits& limits) {
  const double host = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  const double free = value_in(read_file("/proc/meminfo").value_or(""), "MemAvailable:") * 1024;
  // In version 1, a number larger than any memory means "no limit".
  if (limits.memory_bytes <= 0 || limits.memory_bytes >= host) return {.bytes = host, .free_bytes = free};
  return {.bytes = limits.memory_bytes,
          .free_bytes = std::clamp(limits.memory_bytes - limits.memory_used_bytes, 0.0, free)};
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace dtrain
