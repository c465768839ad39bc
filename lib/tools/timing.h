// Times of repeated work, for the benches.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.h"

namespace dtrain::tools {

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Seconds that `work` took, a function that returns a Result<>.
template <class Work>
Result<double> timed(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  DT_TRY_VOID(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace dtrain::tools
