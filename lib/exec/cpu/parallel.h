// The compute threads: the calling thread and its OpenMP team, which oneDNN, OpenBLAS and our own kernels share.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace dtrain::exec::cpu {

// Makes parallel regions that the calling thread starts use `threads` threads, all with denormals flushed. Cheap:
// called at each pass, since passes may come from different threads.
void prepare_threads(int threads);

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
