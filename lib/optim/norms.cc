#include "optim/norms.h"

#include <array>

#include "base/simd.h"

namespace dtrain::optim {
namespace {

// So many sums are made side by side: enough for vector instructions, which would otherwise wait for each addition.
constexpr size_t kLanes = 64;

DT_MULTI_ISA void add_squares(const float* x, size_t n, double* sums) {
  for (size_t i = 0; i < n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; lane++) {
      const double value = x[i + lane];
      sums[lane] += value * value;
    }
  }
}

}  // namespace

double sum_of_squares(std::span<const float> block) {
  std::array<double, kLanes> sums = {};
  const size_t whole = block.size() / kLanes * kLanes;
  add_squares(block.data(), whole, sums.data());
  for (size_t i = whole; i < block.size(); i++) sums[i - whole] += static_cast<double>(block[i]) * block[i];
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace dtrain::optim
