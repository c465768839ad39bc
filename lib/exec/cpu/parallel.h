// The compute threads: the calling thread and its OpenMP team, which oneDNN, OpenBLAS and our own kernels share.
#pragma once

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dtrain::exec::cpu {

// Made at the beginning of a pass: parallel regions that the calling thread starts use `threads` threads from then on,
// all with denormals flushed.
//
// If the team has a thread for each CPU that the calling thread may use, each thread gets a CPU of its own. Beside
// other busy processes the kernel otherwise moves the threads of a team, which wake each other all the time, to one CPU
// and leaves them there: a step then takes three to five times as long as its share of the processor allows. A smaller
// team shares the host with others, so the kernel places it. So it does if the user has bound the threads
// (OMP_PROC_BIND, GOMP_CPU_AFFINITY).
class Team {
 public:
  explicit Team(int threads);

  // Brings the calling thread back to its own CPU if the kernel has moved it. It is never bound there, for the threads
  // that it starts (loaders', gRPC's) would inherit that. Costs some 20 ns: called before each piece of work.
  void keep_apart() const {
    if (home_ >= 0 && sched_getcpu() != home_) go_home();
  }

 private:
  void go_home() const;

  int home_ = -1;    // the CPU of the calling thread; -1: any
  cpu_set_t all_{};  // the CPUs of the calling thread
};

// The items that thread `index` of `count` takes of `n`, in contiguous shares that differ by one at most.
inline std::pair<int64_t, int64_t> share_of(int64_t n, int64_t index, int64_t count) {
  const int64_t base = n / count, extra = n % count;
  const int64_t begin = index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

// work(begin, end) on every thread of the team with its own share of 0..n. `cost`: elements that all items touch
// together; little work stays on the calling thread, since waking the others takes as long as some 20,000 elements.
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
