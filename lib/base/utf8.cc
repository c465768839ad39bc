#include "base/utf8.h"

namespace dtrain {

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
