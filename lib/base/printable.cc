#include "base/printable.h"

#include <fmt/core.h>

#include <cstdint>

#include "base/utf8.h"

namespace dtrain {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

std::string escaped(std::string_view text, std::string_view kept) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t size = character_bytes(text);
    const std::string_view taken = text.substr(0, size == 0 ? 1 : size);
    if (size > 0 && (!is_control(taken) || kept.find(taken) != std::string_view::npos)) {
      shown += taken;
    } else {
      for (size_t i = 0; i < taken.size(); i++) shown += fmt::format("\\x{:02x}", byte_at(taken, i));
    }
    text.remove_prefix(taken.size());
  }
  return shown;
}

// The largest position up to `at` that does not split a character.
size_t boundary(std::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && at - begin < 3 && continues_character(text[begin])) begin--;
  return begin;
}

}  // namespace

std::string printable(std::string_view text, size_t bytes_max, std::string_view kept) {
  if (text.size() <= bytes_max) return escaped(text, kept);
  const size_t head = boundary(text, bytes_max - bytes_max / 4);
  const size_t tail = boundary(text, text.size() - bytes_max / 4);
  return fmt::format("{} ... ({} bytes) ... {}", escaped(text.substr(0, head), kept), text.size(),
                     escaped(text.substr(tail), kept));
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dtrain
