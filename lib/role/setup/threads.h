// How the threads of a process are divided.
#pragma once

#include <cstdint>

namespace dtrain::job {
struct Flags;
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

// The number of a server's own threads, which update large slices: at most its share of the host's cores, and at most
// `reduce_threads`, the job's --reduce-threads.
int shard_threads(const job::Flags& flags, int64_t reduce_threads);

}  // namespace dtrain::role
