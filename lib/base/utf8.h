// What texts in UTF-8 are made of.
#pragma once

namespace dtrain {

// Whether the byte goes on with a character that an earlier byte has begun.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

}  // namespace dtrain
