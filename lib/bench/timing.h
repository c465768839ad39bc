// Timing of repeated work, for the benchmarks.
#pragma once

#include <chrono>

#include "base/error.h"
#include "base/median.h"

namespace dtrain::bench {

// Returns the seconds that `work` took. `work` returns a Result<>.
template <class Work>
Result<double> timed(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  DT_TRY_VOID(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace dtrain::bench
