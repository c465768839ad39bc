#include "launch/cluster/cluster.h"

#include "launch/cluster/mpi.h"
#include "launch/cluster/slurm.h"

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

// The starter of the cluster, and its hosts if the job does not name them.
struct Found {
  AgentStarter starter;
  std::vector<std::string> hosts;
};

Result<Found> find_mpi(bool names_hosts) {
  DT_TRY(const Mpi mpi, installed_mpi(), "preparing --launcher mpi");
  Found found{.starter = mpi_starter(mpi, names_hosts), .hosts = {}};
  if (names_hosts) return found;
  DT_TRY(found.hosts, mpi_hosts(mpi));
  found.starter.allocation = found.hosts;
  return found;
}

Result<Found> find_slurm(const job::Flags& flags, const job::Environment& environment) {
  DT_TRY(const SlurmAllocation allocation, slurm_allocation(environment));
  Found found;
  DT_TRY(found.starter, slurm_starter());
  DT_TRY(found.hosts, slurm_hosts(allocation, flags.job.num_servers + flags.job.num_workers));
  return found;
}

}  // namespace

bool is_cluster(const std::string& launcher) {
  return launcher == "mpi" || launcher == "slurm";
}

Result<Cluster> find_cluster(const job::Flags& flags, const job::Environment& environment,
                             const std::optional<job::HostAssignment>& named) {
  DT_TRY(const Found found,
         flags.launch.launcher == "mpi" ? find_mpi(named.has_value()) : find_slurm(flags, environment));
  Cluster cluster{.assignment = {}, .starter = found.starter};
  if (named) {
    DT_TRY_VOID(check_addresses(*named, found.starter.tool));
    cluster.assignment = *named;
  } else {
    DT_TRY(cluster.assignment, assign_to(found.hosts, flags, "the allocation"));
    if (flags.launch.launcher == "slurm") share_gpus(flags.device.gpus, environment, cluster.assignment);
  }
  return cluster;
}

AgentStarter usual_starter(const std::string& launcher, bool names_hosts) {
  return launcher == "mpi" ? mpi_starter(Mpi::kOpenMpi, names_hosts) : slurm_starter(false);
}

}  // namespace dtrain::launch
