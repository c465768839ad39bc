// The value in the middle.
#pragma once

#include <algorithm>
#include <vector>

namespace dtrain {

// Of an even number of values the mean of both in the middle. There must be one.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace dtrain
