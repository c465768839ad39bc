// Starts agents with srun inside a Slurm allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/host_file.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

struct SlurmAllocation {
  std::string job;                 // the job's number, from the variable SLURM_JOB_ID
  std::string nodes;               // names of the nodes, as Slurm abbreviates them: "node[1-3]"
  std::optional<int64_t> tasks{};  // the value of -n for salloc or sbatch; nullopt: only nodes were requested
};
// Code::kStartup: this process is not inside an allocation.
Result<SlurmAllocation> slurm_allocation(const job::Environment& environment);

// The nodes of the allocation, whose names scontrol expands. Code::kUsage: fewer tasks were requested than the job has
// servers and workers; kStartup: scontrol is missing or refuses.
Result<std::vector<std::string>> slurm_hosts(const SlurmAllocation& allocation, int64_t processes);

// If several workers are on one node, gives each of them separate GPUs, provided that Slurm has given the node enough
// for all of them (SLURM_GPUS_ON_NODE). `gpus`: the GPUs that the flags give to each worker.
void share_gpus(const std::vector<int64_t>& gpus, const job::Environment& environment, job::HostAssignment& assignment);

// True if a cluster with this output of `scontrol show config` binds tasks to cores.
bool binds_tasks(const std::vector<std::string>& configuration);

// Asks Slurm for its configuration. Code::kStartup: Slurm cannot be reached; the message has Slurm's own words.
Result<launch::AgentStarter> slurm_starter();
// The starter for a cluster of which it is already known whether it binds tasks to cores.
launch::AgentStarter slurm_starter(bool binds);

}  // namespace dtrain::cluster
