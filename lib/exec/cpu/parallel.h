// The compute threads: the calling thread and its OpenMP team, which oneDNN, OpenBLAS and dtrain's own kernels share.
#pragma once

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dtrain::exec::cpu {

// Create a Team at the beginning of a pass. While it exists, parallel regions that the calling thread starts use
// `threads` threads, all of which flush denormals.
//
// If the team has as many threads as the calling thread may use CPUs, each thread gets a CPU of its own. The reason:
// the threads of a team keep waking each other, and if other processes are busy, the kernel tends to move such threads
// to one CPU and to leave them there; a step then takes three to five times as long as its share of the processor
// allows. A smaller team shares the host with other threads, so the kernel places its threads. The kernel also places
// them if the user has bound the threads (OMP_PROC_BIND, GOMP_CPU_AFFINITY).
class Team {
 public:
  explicit Team(int threads);

  // Moves the calling thread back to its own CPU if the kernel has moved it away. The thread is never bound to that
  // CPU, because the threads that it starts (the data loader's, gRPC's) would inherit the binding. Takes about 20 ns
  // and is called before each piece of work.
  void keep_apart() const {
    if (home_ >= 0 && sched_getcpu() != home_) go_home();
  }

 private:
  void go_home() const;

  int home_ = -1;    // the CPU of the calling thread; -1: it may run on any
  cpu_set_t all_{};  // the CPUs that the calling thread may use
};

// The range of `n` items for thread `index` of `count`: contiguous shares whose sizes differ by at most 1.
inline std::pair<int64_t, int64_t> share_of(int64_t n, int64_t index, int64_t count) {
  const int64_t base = n / count, extra = n % count;
  const int64_t begin = index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

// Runs work(begin, end) on every thread of the team with its own share of 0 .. n. `cost`: the total number of elements
// that the items touch. Small work stays on the calling thread, because waking the others takes as long as about 20,000
// elements.
template <class Work>
void parallel_shares(int64_t n, int64_t cost, const Work& work) {
  constexpr int64_t kWorthWaking = 20'000;
  if (n < 2 || cost < kWorthWaking || omp_get_max_threads() == 1) {
    if (n > 0) work(int64_t{0}, n);
    return;
  }
#pragma omp parallel
  {
    const auto [begin, end] = share_of(n, omp_get_thread_num(), omp_get_num_threads());
    if (begin < end) work(begin, end);
  }
}

}  // namespace dtrain::exec::cpu
