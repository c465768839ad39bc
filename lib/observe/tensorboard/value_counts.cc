#include "observe/tensorboard/value_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace dtrain::observe {
namespace {

// A float's exponent and the first three bits of its mantissa number its bucket: no logarithm is needed.
constexpr int kShift = 20;
constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kFirst = (127 - 40) << 3;          // of 2^-40
constexpr uint32_t kInfinite = 0x7f800000 >> kShift;  // of infinity, and the first one of NaN
constexpr size_t kBuckets = kInfinite - kFirst;       // of each sign

using Buckets = std::array<uint64_t, kBuckets>;

struct Signed {
  uint64_t zero = 0;
  Buckets positive{}, negative{};
};

// The lower end of bucket `i`, which is the upper end of the one before it. The last bucket ends at infinity.
double edge(size_t i) {
  const auto bits = static_cast<uint32_t>(kFirst + i) << kShift;
  return i == kBuckets ? std::numeric_limits<double>::max() : static_cast<double>(std::bit_cast<float>(bits));
}

void append(ValueCounts& out, double limit, uint64_t count) {
  if (count == 0 && !out.counts.empty() && out.counts.back() == 0) {
    out.limits.back() = limit;  // the empty bucket before this one grows
    return;
  }
  out.limits.push_back(limit);
  out.counts.push_back(count);
}

void append_buckets(ValueCounts& out, const Signed& counted) {
  for (size_t i = kBuckets; i-- > 0;) append(out, -edge(i), counted.negative[i]);
  append(out, edge(0), counted.zero);
  for (size_t i = 0; i < kBuckets; i++) append(out, edge(i + 1), counted.positive[i]);
  if (out.counts.back() == 0) {
    out.counts.pop_back();
    out.limits.pop_back();
  }
}

}  // namespace

ValueCounts count_values(std::span<const float> values) {
  ValueCounts out;
  Signed counted;
  float min = std::numeric_limits<float>::infinity(), max = -min;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t bucket = (bits & ~kSign) >> kShift;
    if (bucket >= kInfinite) {
      out.not_finite++;
      continue;
    }
    if (bucket < kFirst) {
      counted.zero++;
    } else {
      ((bits & kSign) != 0 ? counted.negative : counted.positive)[bucket - kFirst]++;
    }
    min = std::min(min, value);
    max = std::max(max, value);
    out.sum += value;
    out.sum_squares += static_cast<double>(value) * value;
  }
  out.count = values.size() - out.not_finite;
  if (out.count == 0) return out;
  out.min = min;
  out.max = max;
  append_buckets(out, counted);
  return out;
}

}  // namespace dtrain::observe
