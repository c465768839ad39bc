// The memory that the processes of a job will take on one host, from the memory plans of the compiled network, and the
// largest batch that fits. memory_need.h has a lower bound, which costs nothing to compute.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/host_limits.h"
#include "role/setup/memory_need.h"
#include "role/setup/network.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// The memory of the processes of a job with CPU devices, in bytes.
struct PlannedMemory {
  double weights = 0;    // in a worker: weights and statistics on all of its devices
  double gradients = 0;  // in a worker: gradients on all of its devices
  // In a worker: activations on all of its devices, with their gradients and workspace, for training and validation.
  double activations = 0;
  double batches = 0;    // in a worker: images that were read ahead
  double optimizer = 0;  // in a worker: the optimizer state; 0 if the servers hold it
  double server = 0;     // in a server: its part of the weights, sums and optimizer state
  [[nodiscard]] double worker() const { return weights + gradients + activations + batches + optimizer; }
  [[nodiscard]] double on(const HostShare& host) const {
    return static_cast<double>(host.workers) * worker() + static_cast<double>(host.servers) * server;
  }
};

// The processes whose memory is to be planned.
struct MemoryQuestion {
  const job::Flags& flags;  // flags of a worker
  const Network& network;
  bool validates = true;  // whether there is validation data
  HostShare host;
};

// `activations`: the memory of the compiled executors (exec::Executor::memory_bytes).
Result<PlannedMemory> planned_memory(const MemoryQuestion& question, double activations);
// Compiles the network for batches of this size to learn `activations`. Touches only the memory of the parameters.
Result<PlannedMemory> plan_memory(const MemoryQuestion& question, int64_t batch_size);

// Code::kUsage if the processes need more memory than the host has. The error gives both numbers and the largest
// --batch-size that fits, for which the network is compiled a few times. If they need more than is free, the result is
// a warning with the same content; else it is empty.
Result<std::string> judge_memory(const MemoryQuestion& question, const PlannedMemory& plan, const UsableMemory& memory);

// Like judge_memory above, but makes the plan itself. It skips the plan, and does not compile the network, if the lower
// bound (memory_need.h) is so far below the host's memory that the job certainly fits. Jobs on GPUs are not judged.
Result<std::string> judge_memory(const MemoryQuestion& question, const UsableMemory& memory);

// The largest batch in [least, too_large) that needs no more than `limit`; 0 if there is none. The need is roughly
// linear in the batch size, so it is computed for only a few sizes. The result may be too small by a few per mille.
struct BatchRange {
  int64_t least = 1, too_large = 1;
  double too_large_bytes = 0;
};
Result<int64_t> largest_batch(const BatchRange& range, double limit,
                              const std::function<Result<double>(int64_t)>& bytes_at);

}  // namespace dtrain::role
