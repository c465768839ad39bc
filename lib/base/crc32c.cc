#include "base/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dtrain {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

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
// One crc32 instruction takes 8 bytes in 3 cycles of latency: about 10 GB/s, above what a loopback socket carries.
__attribute__((target("sse4.2"))) uint32_t update_sse42(uint32_t crc, std::span<const std::byte> bytes) {
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
