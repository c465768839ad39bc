// Starts agents with mpirun: that of Open MPI, or that of MPICH and Intel MPI (hydra). MPI only starts the agents; it
// carries no messages of the job.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

enum class Mpi { kOpenMpi, kHydra };

// The implementation, recognized by the output of `mpirun --version`. Code::kStartup: another MPI.
Result<Mpi> mpi_of(const std::vector<std::string>& version);
// Determines the implementation of the mpirun in PATH, by running it. Code::kStartup: there is none.
Result<Mpi> installed_mpi();

// The hosts of mpirun's own allocation (from PBS, LSF, Slurm or SGE, or from its default host file), each once.
Result<std::vector<std::string>> mpi_hosts(Mpi mpi);

// names_hosts: the hosts are from a host file; otherwise mpirun uses the hosts of its own allocation.
launch::AgentStarter mpi_starter(Mpi mpi, bool names_hosts);

}  // namespace dtrain::cluster
