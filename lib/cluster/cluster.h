// The hosts of a job whose agents are started by a cluster's tools.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/host_file.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cluster {

struct Cluster {
  job::HostAssignment assignment;
  launch::AgentStarter starter;
  std::vector<std::string> ways =
      {};  // hosts that are reached through the same network as those of the job; empty: the job's own hosts
};

// True if a value of --launcher is a cluster's tool: mpi, slurm, sge, yarn.
bool is_cluster(const std::string& launcher);

// The hosts of -H (`named`) or, without -H, those of the allocation. Code::kUsage: the host file has settings that only
// ssh can use, or there are not enough places for all processes; kStartup: there is no allocation, or a tool is missing
// or refuses; the message has the tool's own words.
Result<Cluster> find_cluster(const job::Flags& flags, const job::Environment& environment,
                             const std::optional<job::HostAssignment>& named);

// For a host outside any cluster, where find_cluster fails: the starter that find_cluster would choose in most
// clusters. `names_hosts`: the user has named the hosts with -H.
launch::AgentStarter usual_starter(const std::string& launcher, bool names_hosts);

}  // namespace dtrain::cluster
