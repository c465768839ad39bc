// Measures the duration of repeated work, for the benchmarks.
#pragma once

#include <chrono>

#include "base/error.h"
#include "base/median.h"

namespace dtrain::bench {

// Returns how long `work` took, in seconds. `work` must return a Result<>.
template <class Work>
Result<double> timed(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  DT_TRY_VOID(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace dtrain::bench
