// Base64: bytes as text, for images in JSON and HTML. Source: RFC 4648, section 4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// Encodes with the alphabet that has + and /, padded with =, without line breaks.
std::string base64(std::span<const uint8_t> bytes);

// True if the text contains only characters of that alphabet, and = at most twice at its end.
bool is_base64(std::string_view text);

}  // namespace dtrain
