// The hosts of a job whose agents are started by the tools of a cluster.
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
      {};  // hosts that are reached through the same network as those of the job; empty: those
};

// Whether a value of --launcher is the tool of a cluster: mpi, slurm, sge, yarn.
bool is_cluster(const std::string& launcher);

// The hosts of -H (`named`), or else those of the allocation. Code::kUsage: the host file has what only ssh can use, or
// the processes do not fit; kStartup: there is no allocation, or a tool is missing or refuses, in its own words.
Result<Cluster> find_cluster(const job::Flags& flags, const job::Environment& environment,
                             const std::optional<job::HostAssignment>& named);

// The starter that find_cluster would find in most clusters, for a host that is in none.
launch::AgentStarter usual_starter(const std::string& launcher, bool names_hosts);

}  // namespace dtrain::cluster
