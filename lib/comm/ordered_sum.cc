#include "comm/ordered_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/simd.h"

namespace dtrain::comm {
namespace {

// The block has 16 KiB, so that the sum stays in the first-level cache while the inputs are read, and each input is
// read in runs of four pages.
constexpr size_t kBlock = 4096;

DT_MULTI_ISA void add(const float* __restrict a, const float* __restrict b, float* __restrict sum, size_t count) {
  for (size_t i = 0; i < count; i++) sum[i] = a[i] + b[i];
}

DT_MULTI_ISA void add_to(const float* __restrict from, float* __restrict sum, size_t count) {
  for (size_t i = 0; i < count; i++) sum[i] += from[i];
}

}  // namespace

void ordered_sum(std::span<const float* const> inputs, std::span<float* const> outputs, size_t begin, size_t count) {
  alignas(64) std::array<float, kBlock> sum;
  for (size_t at = begin; at < begin + count; at += kBlock) {
    const size_t n = std::min(kBlock, begin + count - at);
    if (inputs.size() == 1) {
      std::memcpy(sum.data(), inputs[0] + at, n * sizeof(float));
    } else {
      add(inputs[0] + at, inputs[1] + at, sum.data(), n);
      for (const float* input : inputs.subspan(2)) add_to(input + at, sum.data(), n);
    }
    for (float* output : outputs) std::memcpy(output + at, sum.data(), n * sizeof(float));
  }
}

}  // namespace dtrain::comm
