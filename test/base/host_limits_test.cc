#include "base/host_limits.h"

#include <filesystem>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace dtrain {
namespace {

// A tree of control groups, as the kernel shows it.
class Groups {
 public:
  explicit Groups(const std::string& of_process) { put("process", of_process); }

  Groups& put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_.path(file)).parent_path());
    test::must(write_file_atomic(dir_.path(file), text));
    return *this;
  }
  [[nodiscard]] GroupLimits limits() const {
    return group_limits({.process = dir_.path("process"), .groups = dir_.path("groups")});
  }

 private:
  test::TempDir dir_;
};

constexpr double kMiB = 1 << 20;

}  // namespace

TEST_CASE("limits of control groups of version 2 are the smallest of the group and those around it", "[base]") {
  Groups groups("0::/job/step\n");
  groups.put("groups/job/step/cpu.max", "max 100000\n").put("groups/job/cpu.max", "250000 100000\n");
  groups.put("groups/job/step/memory.max", "104857600\n").put("groups/job/memory.max", "209715200\n");
  groups.put("groups/job/step/memory.current", "73400320\n");
  groups.put("groups/job/step/memory.stat", "anon 31457280\nfile 41943040\nactive_file 0\ninactive_file 41943040\n");
  const GroupLimits limits = groups.limits();
  CHECK(limits.cores == 2.5);
  CHECK(limits.memory_bytes == 100 * kMiB);
  CHECK(limits.memory_used_bytes == 30 * kMiB);  // the cache of files can be given back
}

TEST_CASE("limits of control groups of version 1 are in a tree for each kind", "[base]") {
  Groups groups("5:cpuset:/\n4:memory:/docker/a1\n3:cpu,cpuacct:/docker/a1\n1:name=systemd:/\n0::/\n");
  groups.put("groups/cpu/docker/a1/cpu.cfs_quota_us", "150000\n");
  groups.put("groups/cpu/docker/a1/cpu.cfs_period_us", "100000\n");
  groups.put("groups/cpu/cpu.cfs_quota_us", "-1\n").put("groups/cpu/cpu.cfs_period_us", "100000\n");
  groups.put("groups/memory/docker/a1/memory.limit_in_bytes", "52428800\n");
  groups.put("groups/memory/docker/a1/memory.usage_in_bytes", "20971520\n");
  groups.put("groups/memory/docker/a1/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
  groups.put("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const GroupLimits limits = groups.limits();
  CHECK(limits.cores == 1.5);
  CHECK(limits.memory_bytes == 50 * kMiB);
  CHECK(limits.memory_used_bytes == 10 * kMiB);
}

TEST_CASE("in a container the group's path on the host is not there, and the top of the tree is its own", "[base]") {
  Groups groups("0::/kubepods/pod7\n");
  groups.put("groups/cpu.max", "50000 100000\n").put("groups/memory.max", "max\n");
  const GroupLimits limits = groups.limits();
  CHECK(limits.cores == 0.5);
  CHECK(limits.memory_bytes == 0);
}

TEST_CASE("without control groups, or with files that say nothing, there is no limit", "[base]") {
  for (const char* of_process : {"", "0::\n", "0", "::", "4:memory\n", "0::/a/../..\n"}) {
    Groups groups(of_process);
    groups.put("groups/cpu.max", "\n").put("groups/memory.max", "much\n").put("groups/cpu/cpu.cfs_quota_us", "10\n");
    CHECK(groups.limits().cores == 0);
    CHECK(groups.limits().memory_bytes == 0);
  }
  CHECK(group_limits({.process = "/nowhere", .groups = "/nowhere"}).cores == 0);
}

TEST_CASE("the usable cores and bytes are the host's, or the limit if that is less", "[base]") {
  const int all = usable_cores(GroupLimits{});
  CHECK(all >= 1);
  CHECK(usable_cores({.cores = 0.2}) == 1);
  CHECK(usable_cores({.cores = 1e6}) == all);
  if (all >= 2) CHECK(usable_cores({.cores = 1.6}) == 2);
  const UsableMemory host = usable_memory(GroupLimits{});
  CHECK(host.bytes > 0);
  CHECK(host.free_bytes > 0);
  CHECK(host.free_bytes <= host.bytes);
  const UsableMemory limited = usable_memory({.memory_bytes = kMiB, .memory_used_bytes = 2 * kMiB});
  CHECK(limited.bytes == kMiB);
  CHECK(limited.free_bytes == 0);
  CHECK(usable_memory({.memory_bytes = 1e18}).bytes == host.bytes);
}

TEST_CASE("the CPUs near a PCI device are those of its socket that the process may use", "[base]") {
  const test::TempDir dir;
  const auto near = [&](const std::string& list) {
    std::filesystem::create_directories(dir.path("0000:3b:00.0"));
    test::must(write_file_atomic(dir.path("0000:3b:00.0/local_cpulist"), list));
    return cpus_near("0000:3B:00.0", dir.path());
  };
  const std::vector<int> all = near("0-4095\n");
  REQUIRE(!all.empty());
  const int one = all.back();
  CHECK(near(fmt::format("{}\n", one)) == std::vector{one});
  CHECK(near(fmt::format("{0}-{0},{1}-{1}\n", one, 1 << 20)) == std::vector{one});
  CHECK(near("5000-6000\n").empty());
  for (const char* bad : {"", "\n", "-1\n", "all\n"}) CHECK(near(bad).empty());
  CHECK(cpus_near("0000:00:1f.9", dir.path()).empty());
}

}  // namespace dtrain
