// Euclidean norms of whole arrays, for rules that scale each array's learning rate by them (lars). Elements are added
// in a fixed order, so the same array has the same norm with any number of threads.
#pragma once

#include <cstddef>
#include <span>

namespace dtrain::optim {

// The norms of one array. The norm of the gradient is that of the unscaled gradient or, if several gradients are
// summed, that of their mean.
struct Norms {
  double weight = 0, gradient = 0;
};

// An array is divided into blocks of this number of elements. The blocks' sums of squares are added in order.
inline constexpr size_t kNormBlock = 1 << 16;
// The number of partial sums of a block: sum i covers elements i, i + kNormLanes, ... They are then added in pairs.
inline constexpr size_t kNormLanes = 64;

// The sum of the squares of at most kNormBlock elements. Squares are exact, and sums are float64.
double sum_of_squares(std::span<const float> block);
// Like sum_of_squares above, for sum + scale * gradient, which is computed in float32. Both spans must have the same
// size.
double sum_of_squares(std::span<const float> sum, float scale, std::span<const float> gradient);

}  // namespace dtrain::optim
