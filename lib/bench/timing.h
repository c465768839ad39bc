// Timing of repeated work, for the benchmarks.
#pragma once

#include <chrono>

#include "base/error.h"
#include "base/median.h"

namespace dtrain::bench {

// The seconds that `work` took, a function that returns a Result<>.
template <class Work>
Result<double> timed(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  DT_TRY_VOID(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace dtrain::bench
