// Euclidean norms of whole arrays, for rules that scale the learning rate of each array by them (lars). Elements are
// added in a fixed order, so the same array has the same norm on any number of threads.
#pragma once

#include <cstddef>
#include <span>

namespace dtrain::optim {

// Of one array; the gradient as it is, before it is scaled. Of several that add up, their mean.
struct Norms {
  double weight = 0, gradient = 0;
};

// An array is divided into blocks of so many elements, whose sums of squares are added in their order.
inline constexpr size_t kNormBlock = 1 << 16;
// So many sums of a block are made side by side: sum i has elements i, i + kNormLanes, ... They are then added in
// pairs.
inline constexpr size_t kNormLanes = 64;

// Of at most kNormBlock elements. Squares are exact, and sums are float64.
double sum_of_squares(std::span<const float> block);
// The same of sum + scale * gradient, in float32. Both have the same size.
double sum_of_squares(std::span<const float> sum, float scale, std::span<const float> gradient);

}  // namespace dtrain::optim
