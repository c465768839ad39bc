// The median.
#pragma once

#include <algorithm>
#include <vector>

namespace dtrain {

// The median; for an even number of values, the mean of the two in the middle. `values` must not be empty.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace dtrain
