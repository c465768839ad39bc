#include "base/base64.h"

#include <algorithm>

namespace dtrain {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::span<const uint8_t> three = bytes.subspan(at, std::min<size_t>(3, bytes.size() - at));
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; i++) bits = bits << 8 | (i < three.size() ? three[i] : 0U);
    for (size_t i = 0; i < 4; i++) {
      text += i <= three.size() ? kAlphabet[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

bool is_base64(std::string_view text) {
  if (text.size() % 4 != 0) return false;
  const std::string_view digits = text.substr(0, text.find_last_not_of('=') + 1);
  return text.size() - digits.size() <= 2 && digits.find_first_not_of(kAlphabet) == std::string_view::npos;
}

}  // namespace dtrain
