#include "cluster/cluster.h"

#include <pwd.h>
#include <unistd.h>

#include "cluster/batch_request.h"
#include "cluster/kubernetes_files.h"
#include "cluster/mpi.h"
#include "cluster/sge.h"
#include "cluster/slurm.h"
#include "cluster/yarn.h"
#include "job/flags/flags.h"
#include "job/process/token.h"

namespace dtrain::cluster {
namespace {

// Refuses users and ports in the host file, because a cluster's tool cannot be told to use them.
Result<> check_addresses(const job::HostAssignment& assignment, const std::string& tool) {
  for (const auto* slots : {&assignment.servers, &assignment.workers}) {
    for (const job::ProcessSlot& slot : *slots) {
      if (slot.ssh.port == 0 && slot.ssh.user.empty()) continue;
      return fail(Code::kUsage,
                  "-H: host '{}' has a port or a user, but {} does not accept them: put them into ~/.ssh/config, or "
                  "use --launcher ssh",
                  slot.host, tool);
    }
  }
  return {};
}

Result<job::HostAssignment> assign_to(const std::vector<std::string>& hosts, const job::Flags& flags,
                                      const std::string& name) {
  job::HostFile file{.name = name, .lines = {}};
  for (const std::string& host : hosts) file.lines.push_back({.host = host, .number = std::ssize(file.lines) + 1});
  return job::assign_hosts(file, job::assignment_options(flags));
}

// The starter of the cluster, and its hosts if the job does not name them.
struct Found {
  launch::AgentStarter starter;
  std::vector<std::string> hosts;
  // Hosts that are reached through the same network as the job's hosts; empty: the job's own hosts.
  std::vector<std::string> ways = {};
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

Result<Found> find_sge(const job::Flags& flags, const job::Environment& environment) {
  DT_TRY(const SgeTasks tasks, sge_tasks(environment, flags.launch.run_dir));
  return Found{.starter = sge_starter(flags.launch.run_dir, tasks.job), .hosts = tasks.hosts, .ways = tasks.names};
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr ? "" : user->pw_name;
}

Result<YarnSetting> yarn_setting(const job::Flags& flags, const job::Environment& environment) {
  DT_TRY_VOID(check_all_gpus(flags, "YARN"));
  YarnSetting setting{.url = {}, .name = {}, .request = {}};
  DT_TRY(setting.url,
         parse_yarn_url(flags.launch.launcher_argument, environment("HADOOP_USER_NAME").value_or(user_name())));
  DT_TRY(setting.request, batch_request({.executable = {}, .arguments = {}, .flags = flags, .directory = {}}, {}));
  setting.name = dns_label(setting.request.name) + "-" + job::make_token().substr(0, 8);
  setting.image = flags.batch.image;
  setting.library_path = environment("LD_LIBRARY_PATH").value_or("");
  return setting;
}

Result<Found> find_yarn(const job::Flags& flags, const job::Environment& environment) {
  DT_TRY(const YarnSetting setting, yarn_setting(flags, environment));
  Found found{.starter = yarn_starter(setting), .hosts = {}, .ways = {setting.url.host}};
  for (int64_t i = 0; i < setting.request.nodes; i++) found.hosts.push_back(fmt::format("container-{}", i));
  return found;
}

Result<Found> find(const job::Flags& flags, const job::Environment& environment, bool names_hosts) {
  const std::string& launcher = flags.launch.launcher;
  if (launcher == "mpi") return find_mpi(names_hosts);
  if (launcher == "sge") return find_sge(flags, environment);
  if (launcher == "yarn") return find_yarn(flags, environment);
  return find_slurm(flags, environment);
}

}  // namespace

bool is_cluster(const std::string& launcher) {
  return launcher == "mpi" || launcher == "slurm" || launcher == "sge" || launcher == "yarn";
}

Result<Cluster> find_cluster(const job::Flags& flags, const job::Environment& environment,
                             const std::optional<job::HostAssignment>& named) {
  DT_TRY(const Found found, find(flags, environment, named.has_value()));
  Cluster cluster{.assignment = {}, .starter = found.starter, .ways = found.ways};
  if (named) {
    DT_TRY_VOID(check_addresses(*named, found.starter.tool));
    cluster.assignment = *named;
  } else {
    DT_TRY(cluster.assignment, assign_to(found.hosts, flags, "the allocation"));
    if (flags.launch.launcher == "slurm") share_gpus(flags.device.gpus.numbers, environment, cluster.assignment);
  }
  return cluster;
}

launch::AgentStarter usual_starter(const std::string& launcher, bool names_hosts) {
  if (launcher == "sge") return sge_starter("RUN_DIR", "JOB");
  return launcher == "mpi" ? mpi_starter(Mpi::kOpenMpi, names_hosts) : slurm_starter(false);
}

}  // namespace dtrain::cluster
