// The host of this process: its name, and the share of it that the process may use. Containers and batch systems limit
// processes with control groups (Linux's cgroups, versions 1 and 2), which the host's total numbers of processors and
// bytes do not reflect. All functions read kernel files, in less than a millisecond; call them once, not in a loop.
#pragma once

#include <string>
#include <vector>

namespace dtrain {

// The limits that the control groups of a process and the parents of these groups set; for each kind of limit, the
// smallest one.
struct GroupLimits {
  double cores = 0;         // seconds of processor time per second; 0: no limit
  double memory_bytes = 0;  // limit on the memory; 0: no limit
  // Memory used by the group that has the memory limit, without the file cache that it can give back.
  double memory_used_bytes = 0;
};

// Where the kernel shows control groups.
struct GroupFiles {
  std::string process = "/proc/self/cgroup";  // the groups of the process
  std::string groups = "/sys/fs/cgroup";      // the tree of all groups
};
GroupLimits group_limits(const GroupFiles& files = {});

// The number of threads that can run at the same time, at least 1: the number of processors to which the process is
// bound or, if that is smaller, the limit of its control groups, rounded.
int usable_cores(const GroupLimits& limits = group_limits());

// The CPUs on the socket of a PCI device, such as "0000:3b:00.0", that this process may use; empty if that is unknown.
// `devices` is the directory where the kernel shows the devices.
std::vector<int> cpus_near(const std::string& pci_bus_id, const std::string& devices = "/sys/bus/pci/devices");

struct UsableMemory {
  double bytes = 0;       // memory of the host, or the limit of the control groups
  double free_bytes = 0;  // the part of this memory that no process uses
};
UsableMemory usable_memory(const GroupLimits& limits = group_limits());

// The host's own name, with its domain if it has one; "localhost" if it cannot be asked.
std::string host_name();

}  // namespace dtrain
