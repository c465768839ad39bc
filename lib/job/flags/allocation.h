// Allocations of clusters, recognized by the environment variables that Slurm, LSF, SGE and Torque set in their jobs.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "job/process/process_environment.h"

namespace dtrain::job {

struct Flags;

struct Allocation {
  std::string launcher;  // the value of --launcher that uses this allocation
  std::string text;      // description for the user: "job 12 of Slurm, on node[1-3]"
};

// The allocation in which this process runs, if there is one and it has several hosts.
std::optional<Allocation> allocation_of(const Environment& environment);

// If the flags do not say where to start the processes, uses the allocation in which this process runs. Returns a note
// about that for the user, or "". Code::kUsage: this is one of several processes that mpirun or srun started, each of
// which would start the whole job.
Result<std::string> take_allocation(const Environment& environment, Flags& flags);

}  // namespace dtrain::job
