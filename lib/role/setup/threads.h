// How the threads of a process are divided.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::job {
struct Flags;
}

namespace dtrain::telemetry {
struct UsedGpu;
}

namespace dtrain::role {

// How the threads of one process are used. Their total is --threads, or else the number of the host's cores divided by
// the number of the job's processes on the host.
struct ThreadPlan {
  int compute = 1, decode = 1;
  // With --data-nthreads auto: limit on `decode` during training, at most the number of compute threads.
  int decode_max = 1;
  int device = 1;  // number of compute threads of each device; all devices together have `compute` threads
};
ThreadPlan plan_threads(const job::Flags& flags);

// The CPUs for the decode threads of a worker with these GPUs: those on the GPUs' sockets, so that batches are copied
// to a GPU from memory next to it. Empty, which means all CPUs, if more threads decode than these sockets have CPUs.
// `devices`: see cpus_near.
std::vector<int> decode_cpus(const std::vector<telemetry::UsedGpu>& gpus, const ThreadPlan& threads,
                             const std::string& devices = "/sys/bus/pci/devices");

// The number of a server's own threads, which update large slices: at most its share of the host's cores, and at most
// `reduce_threads`, the job's --reduce-threads.
int shard_threads(const job::Flags& flags, int64_t reduce_threads);

}  // namespace dtrain::role
