#include "kvstore/wire/payload.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/simd.h"

namespace dtrain::kvstore {
namespace {

// The bytes may be unaligned; the compiler turns the memcpy of each element into a load.
void copy_run(const std::byte* from, float* __restrict to, size_t count) {
  std::memcpy(static_cast<void*>(to), from, count * sizeof(float));
}

constexpr uint32_t kExponent = 0x7f800000;  // exponent bits; all ones means infinite or NaN

// This function and add_checked_run() return 1 if a resulting value is infinite or NaN, else 0.
DT_MULTI_ISA uint32_t copy_checked_run(const std::byte* from, float* __restrict to, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits = 0;
    std::memcpy(&bits, from + i * sizeof(float), sizeof(float));
    to[i] = std::bit_cast<float>(bits);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad;
}
DT_MULTI_ISA uint32_t add_checked_run(const std::byte* from, float* __restrict to, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    float value = 0;
    std::memcpy(&value, from + i * sizeof(float), sizeof(float));
    to[i] += value;
    bad |= (std::bit_cast<uint32_t>(to[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return bad;
}

// Calls run(bytes, to, count) for each run of whole floats. A float that is split between pieces is assembled first.
template <class Run>
void for_each_run(Pieces pieces, std::span<float> out, Run run) {
  std::byte cut[sizeof(float)];
  size_t cut_bytes = 0;
  size_t done = 0;
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty() && (cut_bytes != 0 || piece.size() < sizeof(float))) {
      cut[cut_bytes++] = piece.front();
      piece = piece.subspan(1);
      if (cut_bytes < sizeof(float)) continue;
      DT_CHECK(done < out.size(), "{} floats are fewer than the payload holds", out.size());
      run(cut, out.data() + done, 1);
      cut_bytes = 0;
      done++;
    }
    const size_t whole = piece.size() / sizeof(float);
    DT_CHECK(whole <= out.size() - done, "{} floats are fewer than the payload holds", out.size());
    if (whole > 0) run(piece.data(), out.data() + done, whole);  // the pointer of an empty piece may be null
    done += whole;
    for (const std::byte byte : piece.subspan(whole * sizeof(float))) cut[cut_bytes++] = byte;
  }
  DT_CHECK(done == out.size() && cut_bytes == 0, "{} floats are more than the payload holds", out.size());
}

}  // namespace

size_t byte_count(Pieces pieces) {
  size_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) bytes += piece.size();
  return bytes;
}

void copy_floats(Pieces pieces, std::span<float> out) {
  for_each_run(pieces, out, copy_run);
}

bool copy_gradient(Pieces pieces, std::span<float> out) {
  uint32_t bad = 0;
  for_each_run(pieces, out,
               [&](const std::byte* from, float* to, size_t count) { bad |= copy_checked_run(from, to, count); });
  return bad == 0;
}
bool add_gradient(Pieces pieces, std::span<float> sum) {
  uint32_t bad = 0;
  for_each_run(pieces, sum,
               [&](const std::byte* from, float* to, size_t count) { bad |= add_checked_run(from, to, count); });
  return bad == 0;
}

}  // namespace dtrain::kvstore
