// Norms of tensors and of their differences, summed in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace dtrain::exec {

template <class T>
double norm(std::span<const T> x) {
  double sum = 0;
  for (const T v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}
template <class T>
double norm(std::span<T> x) {
  return norm(std::span<const T>(x));
}

// Normalized error: |x - truth| / max(|truth|, scale) with Euclidean norms. 0 if x equals truth; NaN if x contains a
// NaN. The spans must have the same size.
inline double normalised_error(std::span<const float> x, std::span<const double> truth, double scale = 0) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const double difference = static_cast<double>(x[i]) - truth[i];
    sum += difference * difference;
  }
  const double denominator = std::max(norm(truth), scale);
  return sum == 0 ? 0 : std::sqrt(sum) / denominator;
}

}  // namespace dtrain::exec
