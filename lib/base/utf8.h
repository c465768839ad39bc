// What texts in UTF-8 are made of.
#pragma once

#include <cstddef>
#include <string_view>

namespace dtrain {

// Whether the byte goes on with a character that an earlier byte has begun.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

// The number of bytes of the character at the start of `text`, which is not empty; 0 if there is none or it is cut.
size_t character_bytes(std::string_view text);

// The text after the mark that some editors and spreadsheets put at the beginning of a file.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

// How many columns of a terminal the text takes: Latin, Greek and Cyrillic letters one, all others two at most.
size_t columns_of(std::string_view text);

// The longest beginning of the text that is at most `columns` wide; no character is cut in two.
std::string_view fitting(std::string_view text, size_t columns);

}  // namespace dtrain
