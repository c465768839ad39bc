#include "base/words.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/utf8.h"

namespace dtrain {

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.empty()) return words;
    const size_t end = std::min(line.find_first_of(kBlank), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::vector<WordLine> word_lines(std::string_view text) {
  std::vector<WordLine> lines;
  for (int64_t number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (WordLine line{number, words_of(text.substr(0, end))}; !line.words.empty()) lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < words.size(); i++) {
    if (i > 0) text += between;
    text += words[i];
  }
  return text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string with_thousands(int64_t number) {
  std::string text = std::to_string(number);
  const size_t digits = number < 0 ? 1 : 0;  // position of the first digit: after the minus, if there is one
  for (size_t at = text.size(); at > digits + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string decimal_text(double number, int digits) {
  std::string text = fmt::format("{:.{}f}", number, digits);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string bytes_text(double bytes) {
  if (bytes < 0x1p20) return fmt::format("{:.0f} KiB", bytes / 0x1p10);
  if (bytes < 0x1p30) return fmt::format("{:.1f} MiB", bytes / 0x1p20);
  if (bytes < 0x1p40) return fmt::format("{:.1f} GiB", bytes / 0x1p30);
  return fmt::format("{:.1f} TiB", bytes / 0x1p40);
}

std::string without_comments(std::string_view text) {
  text = without_byte_order_mark(text);
  std::string kept;
  bool in_comment = false;
  for (const char c : text) {
    in_comment = c != '\n' && (in_comment || c == '#');
    if (!in_comment) kept += c;
  }
  return kept;
}

}  // namespace dtrain
