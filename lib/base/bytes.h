// A view of bytes that were read or will be written. Numbers in them are little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dtrain {

using Bytes = std::span<const uint8_t>;

inline uint32_t load_u32(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}
inline uint64_t load_u64(const uint8_t* p) {
  return load_u32(p) | uint64_t{load_u32(p + 4)} << 32;
}
inline void store_u32(uint8_t* p, uint32_t value) {
  for (int i = 0; i < 4; i++) p[i] = static_cast<uint8_t>(value >> (8 * i));
}
inline void store_u64(uint8_t* p, uint64_t value) {
  store_u32(p, static_cast<uint32_t>(value));
  store_u32(p + 4, static_cast<uint32_t>(value >> 32));
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace dtrain
