#include "base/utf8.h"

#include <cstdint>

namespace dtrain {

size_t character_bytes(std::string_view text) {
  const uint32_t first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  uint32_t code = first & (0x7fU >> size);
  for (size_t i = 1; i < size; i++) {
    if (!continues_character(text[i])) return 0;
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  const bool too_long = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool no_character = code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
  return too_long || no_character ? 0 : size;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) {
    if (!continues_character(c)) columns += static_cast<unsigned char>(c) < 0xe0 ? 1 : 2;
  }
  return columns;
}

std::string_view fitting(std::string_view text, size_t columns) {
  size_t end = 0, used = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && continues_character(text[next])) next++;
    used += columns_of(text.substr(end, next - end));
    if (used > columns) break;
    end = next;
  }
  return text.substr(0, end);
}

}  // namespace dtrain
