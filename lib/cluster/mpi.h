// Agents started by mpirun: Open MPI's, or that of MPICH and Intel MPI (hydra). MPI only starts them; it carries no
// messages of the job.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "launch/agent_starter.h"

namespace dtrain::cluster {

enum class Mpi { kOpenMpi, kHydra };

// By what `mpirun --version` prints. Code::kStartup: another MPI.
Result<Mpi> mpi_of(const std::vector<std::string>& version);
// Asks the mpirun in PATH. Code::kStartup: there is none.
Result<Mpi> installed_mpi();

// The hosts of mpirun's own allocation (of PBS, LSF, Slurm or SGE, or its default host file), each once.
Result<std::vector<std::string>> mpi_hosts(Mpi mpi);

// names_hosts: the hosts are from a host file; otherwise mpirun takes those of its own allocation.
launch::AgentStarter mpi_starter(Mpi mpi, bool names_hosts);

}  // namespace dtrain::cluster
