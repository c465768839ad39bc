#include "kvstore/server/accumulator.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/simd.h"

namespace dtrain::kvstore {
namespace {

DT_MULTI_ISA void add(const float* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] += from[i];
}

}  // namespace

void Accumulator::take(uint32_t rank, size_t first, size_t count, Pieces payload) {
  Contribution& contribution = contributions_[rank];
  contribution.received = first + count;
  if (order_ == Order::kRank) {
    if (contribution.values.size() == 0) contribution.values = Buffer<float>(elements_);
    return copy_floats(payload, contribution.values.part(first, count));
  }
  if (sum_.size() == 0) sum_ = Buffer<float>(elements_);
  const std::span<float> to = sum_.part(first, count);
  // Chunks come in order, so the valid elements are a prefix of the sum. The first chunk at a place is copied instead
  // of added to zeros.
  if (first == begun_) {
    copy_floats(payload, to);
  } else {
    // Chunks whose sizes differ between ranks. Our workers never send such chunks, but the protocol allows them.
    if (first + count > begun_) std::fill(to.begin() + static_cast<ptrdiff_t>(begun_ - first), to.end(), 0.0f);
    add_floats(payload, to);
  }
  begun_ = std::max(begun_, first + count);
}

void Accumulator::complete(uint32_t rank, uint32_t samples) {
  Contribution& contribution = contributions_[rank];
  DT_CHECK(contribution.received == elements_, "{} of {} elements of rank {}", contribution.received, elements_, rank);
  contribution.whole = true;
  contribution.samples = samples;
}

uint64_t Accumulator::samples() const {
  uint64_t samples = 0;
  for (const auto& [rank, contribution] : contributions_) samples += contribution.whole ? contribution.samples : 0;
  return samples;
}

void Accumulator::mean(std::span<float> out) const {
  const bool alike = samples() == 0;
  std::vector<double> sums(elements_, 0.0);
  double total = 0;
  for (const auto& [rank, contribution] : contributions_) {
    if (!contribution.whole) continue;
    const double weight = alike ? 1 : contribution.samples;
    total += weight;
    const std::span<const float> values = contribution.values.span();
    for (size_t i = 0; i < sums.size(); i++) sums[i] += weight * static_cast<double>(values[i]);
  }
  for (size_t i = 0; i < sums.size(); i++) out[i] = static_cast<float>(sums[i] / total);
}

bool Accumulator::drop_partial(uint32_t rank) {
  Contribution& contribution = contributions_[rank];
  if (contribution.whole || contribution.received == 0) return true;
  contribution.received = 0;
  return order_ == Order::kRank;
}

std::span<const float> Accumulator::total() {
  if (order_ == Order::kArrival) return sum_.span();
  std::span<float> sum;
  for (auto& [rank, contribution] : contributions_) {
    if (!contribution.whole) continue;
    if (sum.empty()) {
      sum = contribution.values.span();  // the lowest rank's own buffer, which is not needed afterwards
    } else {
      add(contribution.values.data(), sum.data(), sum.size());
      contribution.whole = false;  // already in the sum
    }
  }
  DT_CHECK(!sum.empty(), "no gradient is whole");
  return sum;
}

void Accumulator::reset() {
  begun_ = 0;
  for (auto& [rank, contribution] : contributions_) {
    contribution.received = 0;
    contribution.whole = false;
  }
}

}  // namespace dtrain::kvstore
