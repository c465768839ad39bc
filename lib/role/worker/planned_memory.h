// The memory that the processes of a job will take on one host, as the memory plans of the compiled network say, and
// the largest batch that fits. memory_need.h has a lower bound, which costs nothing.
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

// In bytes, of a job with CPU devices.
struct PlannedMemory {
  double weights = 0;    // of a worker: on all of its devices, with statistics
  double gradients = 0;  // of a worker: likewise
  double activations =
      0;                 // of a worker: of all devices, with their gradients and workspace, for training and validation
  double batches = 0;    // of a worker: images that were read ahead
  double optimizer = 0;  // of a worker: the optimizer's state; 0 if the servers have it
  double server = 0;     // of a server: its part of the weights, sums and optimizer's state
  [[nodiscard]] double worker() const { return weights + gradients + activations + batches + optimizer; }
  [[nodiscard]] double on(const HostShare& host) const {
    return static_cast<double>(host.workers) * worker() + static_cast<double>(host.servers) * server;
  }
};

// Whose memory is planned.
struct MemoryQuestion {
  const job::Flags& flags;  // of a worker
  const Network& network;
  bool validates = true;  // there is validation data
  HostShare host;
};

// `activations`: the bytes of the compiled executors (exec::Executor::memory_bytes).
Result<PlannedMemory> planned_memory(const MemoryQuestion& question, double activations);
// Compiles the network for batches of this size to learn that number. Touches no memory but that of the parameters.
Result<PlannedMemory> plan_memory(const MemoryQuestion& question, int64_t batch_size);

// Code::kUsage if the processes need more than the host has, with both numbers and the largest --batch-size that fits,
// for which it compiles the network a few times. If they need more than is free, the result is a warning that says the
// same; else it is empty.
Result<std::string> judge_memory(const MemoryQuestion& question, const PlannedMemory& plan, const UsableMemory& memory);

// The same before anything is compiled. A job whose lower bound (memory_need.h) is far below the host's memory fits,
// and is not compiled for this. Jobs on GPUs are not judged.
Result<std::string> judge_memory(const MemoryQuestion& question, const UsableMemory& memory);

// The largest batch from `least` up to, but without `too_large` that needs no more than `limit`; 0 if there is none.
// The need is about linear in the batch; it is asked for a few times, and the result may be smaller by a few in a
// thousand.
struct BatchRange {
  int64_t least = 1, too_large = 1;
  double too_large_bytes = 0;
};
Result<int64_t> largest_batch(const BatchRange& range, double limit,
                              const std::function<Result<double>(int64_t)>& bytes_at);

}  // namespace dtrain::role
