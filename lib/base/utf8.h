// Functions for text in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace dtrain {

// True if the byte continues a character that an earlier byte began.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

// The number of bytes of the character at the start of `text`, which must not be empty; 0 if the text begins with no
// valid character or with a truncated one.
size_t character_bytes(std::string_view text);

// The text without the byte order mark that some editors and spreadsheets put at the beginning of a file.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

// The number of columns that the text occupies on a terminal. Latin, Greek and Cyrillic letters take one column, all
// other characters count as two at most.
size_t columns_of(std::string_view text);

// The longest beginning of the text that is at most `columns` wide. It does not split a character.
std::string_view fitting(std::string_view text, size_t columns);

}  // namespace dtrain
