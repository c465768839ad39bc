// A lower bound on the host memory that training takes. It allows a job that cannot fit to be refused with an
// explanation, rather than killed by the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "exec/executor.h"
#include "role/setup/network.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// The number of processes of a job that share one host.
struct HostShare {
  int64_t workers = 0;
  int64_t servers = 0;
};
// For a launcher or a process that trains alone: the processes of the job on this host. If a launcher starts them on
// other hosts, the result is one worker.
HostShare started_here(const job::Flags& flags);

struct MemoryNeed {
  double weights = 0;      // bytes of the weights and their gradients
  double activations = 0;  // bytes per image: the input, and the outputs of convolutions and fully connected layers
  [[nodiscard]] double bytes(int64_t batch_size) const {
    return weights + activations * static_cast<double>(batch_size);
  }
};

// A lower bound, because executors also need workspace and optimizers need state. For inference it counts only the
// weights and the images.
MemoryNeed memory_need(const Network& network, exec::Options::Purpose purpose = exec::Options::Purpose::kTraining);

// Code::kUsage if the host's `workers`, with a batch of this size each, need more memory than `host_bytes`.
Result<> check_memory(const MemoryNeed& need, const std::string& network, int64_t batch_size, double host_bytes,
                      int64_t workers = 1);
// Like check_memory above, for a job that trains on CPU devices. Jobs on GPUs are not checked, because they use the
// device's memory, and its driver reports when it runs out.
Result<> check_memory(const job::Flags& flags, const Network& network, double host_bytes, int64_t workers = 1);

}  // namespace dtrain::role
