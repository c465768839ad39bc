#include "launch/copy_progress.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

namespace dtrain::launch {
namespace {

// Removes a number and the blanks around it from the beginning of `text` and returns the number.
std::optional<int64_t> take_number(std::string_view& text) {
  const auto skip_blanks = [&text] { text.remove_prefix(std::min(text.find_first_not_of(' '), text.size())); };
  skip_blanks();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  skip_blanks();
  return number;
}

}  // namespace

std::optional<int64_t> copied_bytes(const std::string& line) {
  std::string_view rest = line;
  const std::optional<int64_t> bytes = take_number(rest);
  if (!bytes) return std::nullopt;
  if (rest.starts_with("bytes ") && rest.find("copied, ") != std::string_view::npos) return bytes;
  const std::optional<int64_t> percent = take_number(rest);
  return percent && rest.starts_with('%') ? bytes : std::nullopt;
}

std::optional<int64_t> bytes_to_copy(const proc::Finished& answer) {
  for (const std::vector<std::string>* lines : {&answer.output, &answer.errors}) {
    for (const std::string_view line : *lines) {
      for (const std::string_view words : {"Total transferred file size:", "Total bytes written:"}) {
        if (!line.starts_with(words)) continue;
        std::string_view rest = line.substr(words.size());
        return take_number(rest);
      }
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::launch
