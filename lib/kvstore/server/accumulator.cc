#include "kvstore/server/accumulator.h"

#include <bit>
#include <iterator>
#include <utility>
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
    const auto at = contributions_.insert_or_assign(rank, Contribution{buffers_.take(), samples}).first;
    is_finite = copy_gradient(gradient, at->second.values.span());
  } else {
    if (is_first) sum_ = buffers_.take();
    // The first gradient is copied instead of added to zeros.
    is_finite = is_first ? copy_gradient(gradient, sum_.span()) : add_gradient(gradient, sum_.span());
  }
  if (!is_finite && !spoiled_by_) spoiled_by_ = rank;
}

void Accumulator::mean(std::span<float> out) const {
  const bool alike = samples_ == 0;
  std::vector<double> sums(buffers_.elements(), 0.0);
  double total = 0;
  for (const auto& [rank, contribution] : contributions_) {
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
  // The sum is built in the lowest rank's own buffer, which is not needed afterwards.
  const auto lowest = contributions_.begin();
  const std::span<float> sum = lowest->second.values.span();
  for (auto next = std::next(lowest); next != contributions_.end(); next = contributions_.erase(next)) {
    const bool is_finite = add_to(next->second.values.data(), sum.data(), sum.size()) == 0;
    if (!is_finite && !spoiled_by_) spoiled_by_ = next->first;
    buffers_.give_back(std::move(next->second.values));
  }
  return sum;
}

void Accumulator::reset() {
  samples_ = 0;
  gradients_ = 0;
  left_out_by_.reset();
  spoiled_by_.reset();
  if (sum_.size() > 0) buffers_.give_back(std::move(sum_));
  for (auto& [rank, contribution] : contributions_) buffers_.give_back(std::move(contribution.values));
  contributions_.clear();
}

}  // namespace dtrain::kvstore
