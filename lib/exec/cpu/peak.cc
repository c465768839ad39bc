#include "exec/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "exec/cpu/dnnl_api.h"
#include "exec/cpu/parallel.h"

namespace dtrain::exec::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// The time of the shortest run, because other processes disturb the longer ones.
template <class Work>
double least_seconds(int runs, const Work& work) {
  double least = 0;
  for (int i = 0; i < runs; i++) {
    const auto begin = Clock::now();
    work();
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    least = i == 0 ? spent : std::min(least, spent);
  }
  return least;
}

double measure_flops() {
  constexpr int64_t kSide = 1024;
  constexpr int kRuns = 12;
  const std::vector<float> a(kSide * kSide, 0.25F), b(kSide * kSide, 0.5F);
  std::vector<float> c(kSide * kSide);
  const double seconds = least_seconds(kRuns, [&] {
    dnnl::sgemm('N', 'N', kSide, kSide, kSide, 1.0F, a.data(), kSide, b.data(), kSide, 0.0F, c.data(), kSide);
  });
  return 2.0 * kSide * kSide * kSide / seconds;
}

double measure_bytes() {
  constexpr int64_t kCount = int64_t{16} << 20;
  constexpr int kRuns = 6;
  const std::vector<float> a(kCount, 0.25F), b(kCount, 0.5F);
  std::vector<float> c(kCount);
  const double seconds = least_seconds(kRuns, [&] {
    parallel_shares(kCount, kCount, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const auto at = static_cast<size_t>(i);
        c[at] = a[at] + b[at];
      }
    });
  });
  return 3.0 * sizeof(float) * kCount / seconds;
}

}  // namespace

Peak measure_peak(int threads) {
  const Team team(threads);
  return {.flops_per_s = measure_flops(), .bytes_per_s = measure_bytes()};
}

}  // namespace dtrain::exec::cpu
