#include "optim/norms.h"

#include <algorithm>
#include <array>

#include "base/simd.h"

namespace dtrain::optim {
namespace {

DT_MULTI_ISA void add_squares(const float* x, size_t n, double* sums) {
  for (size_t i = 0; i < n; i += kNormLanes) {
    for (size_t lane = 0; lane < kNormLanes; lane++) {
      const double value = x[i + lane];
      sums[lane] += value * value;
    }
  }
}

double total(std::array<double, kNormLanes>& sums) {
  for (size_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

double sum_of_squares(std::span<const float> block) {
  std::array<double, kNormLanes> sums = {};
  const size_t whole = block.size() / kNormLanes * kNormLanes;
  add_squares(block.data(), whole, sums.data());
  for (size_t i = whole; i < block.size(); i++) sums[i - whole] += static_cast<double>(block[i]) * block[i];
  return total(sums);
}

// Works in pieces that consist of whole rows of lanes, so the order of additions is the same as for one block.
double sum_of_squares(std::span<const float> sum, float scale, std::span<const float> gradient) {
  std::array<float, kNormLanes* 8> added = {};
  std::array<double, kNormLanes> sums = {};
  for (size_t at = 0; at < sum.size(); at += added.size()) {
    const size_t count = std::min(added.size(), sum.size() - at);
    for (size_t i = 0; i < count; i++) added[i] = sum[at + i] + scale * gradient[at + i];
    std::fill(added.begin() + static_cast<std::ptrdiff_t>(count), added.end(), 0.0F);
    add_squares(added.data(), added.size(), sums.data());
  }
  return total(sums);
}

}  // namespace dtrain::optim
