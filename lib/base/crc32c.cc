#include "base/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dtrain {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // the polynomial of CRC-32C, with reflected bits

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t update_plain(uint32_t crc, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return crc;
}

#if defined(__x86_64__)
constexpr size_t kLaneBytes = 1024;

// The effect of kLaneBytes zero bytes on a checksum, as a table for each of its four bytes; the effects are added up
// (XOR).
struct LaneShift {
  std::array<std::array<uint32_t, 256>, 4> of_byte{};
  [[nodiscard]] constexpr uint32_t operator()(uint32_t crc) const {
    return of_byte[0][crc & 0xff] ^ of_byte[1][crc >> 8 & 0xff] ^ of_byte[2][crc >> 16 & 0xff] ^ of_byte[3][crc >> 24];
  }
};
constexpr LaneShift make_lane_shift() {
  LaneShift shift;
  for (size_t bit = 0; bit < 32; bit++) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kLaneBytes; i++) crc = (crc >> 8) ^ kTable[crc & 0xff];
    const size_t own = size_t{1} << bit % 8;
    for (size_t value = 0; value < 256; value++) {
      if ((value & own) != 0) shift.of_byte[bit / 8][value] ^= crc;
    }
  }
  return shift;
}
constexpr LaneShift kLaneShift = make_lane_shift();

// Three lanes are summed in parallel, the second and third starting from 0, and combined at the end: a crc32
// instruction processes 8 bytes and has its result after 3 cycles, but an independent one can begin in the next cycle.
__attribute__((target("sse4.2"))) uint32_t update_lanes(uint32_t crc, const std::byte* bytes) {
  uint64_t first = crc, second = 0, third = 0;
  for (size_t i = 0; i < kLaneBytes; i += 8, bytes += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    first = _mm_crc32_u64(first, word);
    std::memcpy(&word, bytes + kLaneBytes, 8);
    second = _mm_crc32_u64(second, word);
    std::memcpy(&word, bytes + 2 * kLaneBytes, 8);
    third = _mm_crc32_u64(third, word);
  }
  const uint32_t two = kLaneShift(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
  return kLaneShift(two) ^ static_cast<uint32_t>(third);
}

__attribute__((target("sse4.2"))) uint32_t update_sse42(uint32_t crc, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 3 * kLaneBytes; bytes = bytes.subspan(3 * kLaneBytes)) crc = update_lanes(crc, bytes.data());
  uint64_t wide = crc;
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    wide = _mm_crc32_u64(wide, word);
    bytes = bytes.subspan(8);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (const std::byte byte : bytes) narrow = _mm_crc32_u8(narrow, std::to_integer<uint8_t>(byte));
  return narrow;
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~update_sse42(~crc, bytes);
#endif
  return ~update_plain(~crc, bytes);
}

}  // namespace dtrain
