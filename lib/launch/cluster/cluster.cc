#include "launch/cluster/cluster.h"

#include "launch/cluster/mpi.h"

namespace dtrain::launch {
namespace {

// A tool of a cluster reaches hosts in its own way.
Result<> check_addresses(const job::HostAssignment& assignment, const std::string& tool) {
  for (const auto* slots : {&assignment.servers, &assignment.workers}) {
    for (const job::ProcessSlot& slot : *slots) {
      if (slot.ssh.port == 0 && slot.ssh.user.empty()) continue;
      return fail(Code::kUsage,
                  "-H: host '{}' has a port or a user, which {} cannot be told: put them into ~/.ssh/config, or use "
                  "--launcher ssh",
                  slot.host, tool);
    }
  }
  return {};
}

Result<job::HostAssignment> assign_to(const std::vector<std::string>& hosts, const job::Flags& flags,
                                      const std::string& name) {
  job::HostFile file{.name = name, .lines = {}};
  for (const std::string& host : hosts) file.lines.push_back({.host = host, .number = std::ssize(file.lines) + 1});
  return job::assign_hosts(
      file, {.servers = flags.job.num_servers, .workers = flags.job.num_workers, .order = flags.launch.host_order});
}

}  // namespace

Result<Cluster> find_cluster(const job::Flags& flags) {
  DT_TRY(const Mpi mpi, installed_mpi(), "preparing --launcher mpi");
  Cluster cluster;
  DT_TRY(const std::optional<job::HostAssignment> named, job::read_host_assignment(flags));
  cluster.starter = mpi_starter(mpi, named.has_value());
  if (named) {
    DT_TRY_VOID(check_addresses(*named, cluster.starter.tool));
    cluster.assignment = *named;
    return cluster;
  }
  DT_TRY(cluster.starter.allocation, mpi_hosts(mpi));
  DT_TRY(cluster.assignment, assign_to(cluster.starter.allocation, flags, "mpirun's allocation"));
  return cluster;
}

}  // namespace dtrain::launch
