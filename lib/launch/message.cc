#include "launch/message.h"

#include <charconv>
#include <cstdlib>

#include "base/words.h"

namespace dtrain::launch {
namespace {

constexpr std::string_view kEmpty = "%";

bool is_special(char c) {
  return c == '%' || c == ' ' || static_cast<unsigned char>(c) < 0x20;
}

std::string escaped(std::string_view word) {
  if (word.empty()) return std::string(kEmpty);
  std::string text;
  for (const char c : word) {
    if (is_special(c)) {
      text += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text;
}

Result<std::string> unescaped(std::string_view text) {
  std::string word;
  if (text == kEmpty) return word;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '%') {
      word += text[i];
      continue;
    }
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      return fail(Code::kUsage, "the word '{}' of a message is not properly escaped", text);
    }
    word += static_cast<char>(byte);
    i += 2;
  }
  return word;
}

}  // namespace

std::string to_message(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + escaped(word);
  return line + "\n";
}

int64_t number_of(const std::string& word) {
  return std::strtoll(word.c_str(), nullptr, 10);
}

Result<std::vector<std::string>> parse_message(std::string_view line) {
  std::vector<std::string> words;
  for (const WordLine& parts : word_lines(line)) {
    for (const std::string_view part : parts.words) {
      DT_TRY(std::string word, unescaped(part));
      words.push_back(std::move(word));
    }
  }
  return words;
}

}  // namespace dtrain::launch
