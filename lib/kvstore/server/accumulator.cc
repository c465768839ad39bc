#include "kvstore/server/accumulator.h"

#include <bit>
#include <vector>

#include "base/error.h"
#include "base/simd.h"

namespace dtrain::kvstore {
namespace {

// Adds the values of `from` to those of `to`. Returns 1 if a sum is infinite or NaN, else 0.
DT_MULTI_ISA uint32_t add_to(const float* __restrict from, float* __restrict to, size_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    to[i] += from[i];
    bad |= (std::bit_cast<uint32_t>(to[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return bad;
}

}  // namespace

void Accumulator::add(uint32_t rank, uint32_t samples, Pieces gradient) {
  const bool is_first = gradients_++ == 0;
  samples_ += samples;
  if (samples == 0) left_out_by_ = rank;
  bool is_finite = true;
  if (order_ == Order::kRank) {
    Contribution& contribution = contributions_[rank];
    if (contribution.values.size() == 0) contribution.values = Buffer<float>(elements_);
    is_finite = copy_gradient(gradient, contribution.values.span());
    contribution.samples = samples;
    contribution.is_in_round = true;
  } else {
    if (sum_.size() == 0) sum_ = Buffer<float>(elements_);
    // The first gradient is copied instead of added to zeros.
    is_finite = is_first ? copy_gradient(gradient, sum_.span()) : add_gradient(gradient, sum_.span());
  }
  if (!is_finite && !spoiled_by_) spoiled_by_ = rank;
}

void Accumulator::mean(std::span<float> out) const {
  const bool alike = samples_ == 0;
  std::vector<double> sums(elements_, 0.0);
  double total = 0;
  for (const auto& [rank, contribution] : contributions_) {
    if (!contribution.is_in_round) continue;
    const double weight = alike ? 1 : contribution.samples;
    total += weight;
    const std::span<const float> values = contribution.values.span();
    for (size_t i = 0; i < sums.size(); i++) sums[i] += weight * static_cast<double>(values[i]);
  }
  for (size_t i = 0; i < sums.size(); i++) out[i] = static_cast<float>(sums[i] / total);
}

std::span<const float> Accumulator::total() {
  DT_CHECK(gradients_ > 0, "a sum was taken before any gradient was added");
  if (order_ == Order::kArrival) return sum_.span();
  std::span<float> sum;
  for (auto& [rank, contribution] : contributions_) {
    if (!contribution.is_in_round) continue;
    if (sum.empty()) {
      // The sum is built in the lowest rank's own buffer, which is not needed afterwards.
      sum = contribution.values.span();
    } else {
      const bool is_finite = add_to(contribution.values.data(), sum.data(), sum.size()) == 0;
      if (!is_finite && !spoiled_by_) spoiled_by_ = rank;
      contribution.is_in_round = false;  // the gradient of this rank is already in the sum
    }
  }
  return sum;
}

void Accumulator::reset() {
  samples_ = 0;
  gradients_ = 0;
  left_out_by_.reset();
  spoiled_by_.reset();
  for (auto& [rank, contribution] : contributions_) contribution.is_in_round = false;
}

}  // namespace dtrain::kvstore
