// How the values of a tensor are distributed, for a histogram.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::observe {

// Values that are not finite are counted apart, and are in none of the other members.
struct ValueCounts {
  uint64_t count = 0;
  uint64_t not_finite = 0;
  double min = 0, max = 0;          // 0 if count is 0
  double sum = 0, sum_squares = 0;  // of the values, and of their squares
  // Buckets in ascending order: counts[i] values lie between limits[i - 1] and limits[i]. Both are empty if count is 0.
  std::vector<double> limits;
  std::vector<uint64_t> counts;
};

// Eight buckets for each power of two, of either sign; values of less than 2^-40 share the bucket around 0. Neighboring
// empty buckets are one, so that few are left.
ValueCounts count_values(std::span<const float> values);

}  // namespace dtrain::observe
