// The hosts of a job whose agents are started by the tools of a cluster.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags/flags.h"
#include "job/process/host_file.h"
#include "launch/agent_starter.h"

namespace dtrain::launch {

struct Cluster {
  job::HostAssignment assignment;
  AgentStarter starter;
};

// For --launcher mpi and slurm: the hosts of -H, or else those of the allocation. Code::kUsage: the host file has what
// only ssh can use, or the processes do not fit; kStartup: there is no allocation, or a tool is missing or refuses, in
// its own words.
Result<Cluster> find_cluster(const job::Flags& flags, const job::Environment& environment);

}  // namespace dtrain::launch
