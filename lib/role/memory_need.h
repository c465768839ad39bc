// What training takes of a host's memory at the very least, so that a job that cannot fit is refused with the numbers
// rather than ended by the kernel.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "exec/executor.h"
#include "job/flags.h"
#include "role/setup.h"

namespace dtrain::role {

struct MemoryNeed {
  double weights = 0;      // and their gradients, in bytes
  double activations = 0;  // bytes of one image and of what the backward pass needs of the convolutions and products
  [[nodiscard]] double bytes(int64_t batch_size) const {
    return weights + activations * static_cast<double>(batch_size);
  }
};

// A lower bound: executors also need workspace, and optimisers their state. Of inference it has the weights and images.
MemoryNeed memory_need(const Network& network, exec::Options::Purpose purpose = exec::Options::Purpose::kTraining);

// Code::kUsage if batches of that size need more than the `host_bytes` of this host.
Result<> check_memory(const MemoryNeed& need, const std::string& network, int64_t batch_size, double host_bytes);
// The same of training, for a process with CPU devices. Jobs on GPUs are left to the driver, which knows their memory.
Result<> check_memory(const job::Flags& flags, const Network& network, double host_bytes);
double host_memory_bytes();

}  // namespace dtrain::role
