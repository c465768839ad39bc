#include "base/log_prefix.h"

#include <charconv>
#include <chrono>
#include <system_error>

namespace dtrain {
namespace {

// Parses a time such as "2016-05-12 10:11:12,345".
std::optional<double> time_in(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00 00:00:00,000";
  if (text.size() != kForm.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); i++) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !is_digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto part = [&](size_t at, size_t count) {
    int value = 0;
    std::from_chars(text.data() + at, text.data() + at + count, value);
    return value;
  };
  using namespace std::chrono;
  const year_month_day day(year(part(0, 4)), month(static_cast<unsigned>(part(5, 2))),
                           std::chrono::day(static_cast<unsigned>(part(8, 2))));
  if (!day.ok()) return std::nullopt;
  return static_cast<double>(sys_days(day).time_since_epoch().count()) * 86400 + part(11, 2) * 3600 + part(14, 2) * 60 +
         part(17, 2) + part(20, 3) / 1000.0;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

void skip_blank(std::string_view& text) {
  if (text.starts_with(' ')) text.remove_prefix(1);
}

}  // namespace

SplitLine split_log_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  SplitLine split{.time = std::nullopt, .begin = 0, .node = {}, .rank = std::nullopt, .text = line};
  constexpr std::string_view kNode = "Node[";
  constexpr size_t kTimeBytes = 23;
  const size_t node = line.find(kNode);
  const size_t end = node == std::string_view::npos ? node : line.find(']', node);
  if (end != std::string_view::npos) {
    split.node = line.substr(node + kNode.size(), end - node - kNode.size());
    split.rank = whole_number(split.node);
    split.text = line.substr(end + 1);
    skip_blank(split.text);
    if (node > kTimeBytes) {
      split.begin = node - kTimeBytes - 1;
      split.time = time_in(line.substr(split.begin, kTimeBytes));
    }
    return split;
  }
  for (const std::string_view level : {"INFO:root:", "WARNING:root:", "ERROR:root:"}) {
    if (const size_t at = line.find(level); at != std::string_view::npos) {
      // A prefix other than "INFO:root:" stays in the text, where severity_of() looks for it.
      split.text = line.substr(level == "INFO:root:" ? at + level.size() : at);
    }
  }
  if (split.text.size() > kTimeBytes && (split.time = time_in(split.text.substr(0, kTimeBytes)))) {
    split.text.remove_prefix(kTimeBytes);
    skip_blank(split.text);
  }
  return split;
}

}  // namespace dtrain
