#include "job/flags/flag_table.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "base/nearest.h"
#include "base/printable.h"

namespace dtrain::job {

namespace {

bool matches(std::string_view pattern, std::string_view spelling) {
  if (pattern.ends_with('*')) return spelling.starts_with(pattern.substr(0, pattern.size() - 1));
  return spelling == pattern;
}

// Formats the number as a person writes it: 1048576, 0.1, 1e12.
std::string number_text(double number) {
  double digits = number;
  int zeros = 0;
  for (; std::abs(digits) >= 10 && std::fmod(digits, 10) == 0; zeros++) digits /= 10;
  return zeros < 6 ? fmt::format("{}", number) : fmt::format("{}e{}", digits, zeros);
}

}  // namespace

bool RefusedFlag::accepts(std::string_view value) const {
  double number = 0, other = 0;
  const bool is_number = !value.empty() && parse_value(value, number).has_value();
  return std::any_of(accepted.begin(), accepted.end(), [&](const std::string& text) {
    return text == value || (is_number && !text.empty() && parse_value(text, other) && number == other);
  });
}

const RefusedFlag* find_refused(std::string_view spelling, const std::vector<RefusedFlag>& refused) {
  for (const RefusedFlag& flag : refused) {
    for (const std::string& pattern : flag.spellings) {
      if (matches(pattern, spelling)) return &flag;
    }
  }
  return nullptr;
}

Error refusal(std::string_view spelling, const RefusedFlag& flag, std::optional<std::string_view> value) {
  if (!value || flag.accepted.empty()) return {flag.code, fmt::format("{} {}", spelling, flag.message), {}};
  return {flag.code,
          fmt::format("{}: '{}' {}; accepted: '{}'", spelling, printable(*value), flag.message,
                      fmt::join(flag.accepted, "', '")),
          {}};
}

bool is_path(std::string_view placeholder) {
  return std::ranges::any_of(std::array{"FILE", "DIR", "PREFIX", "MODEL"},
                             [&](std::string_view word) { return placeholder.find(word) != placeholder.npos; });
}

Error empty_path(std::string_view spelling, std::string_view placeholder, std::string_view word) {
  return {Code::kUsage,
          fmt::format("{}: the value is empty: give {}{}, or leave out the flag", spelling, placeholder,
                      word == "none" ? " or 'none'" : ""),
          {}};
}

Error unknown_flag(std::string_view spelling, const std::vector<std::string>& spellings) {
  const std::optional<std::string> near = nearest(spelling, spellings);
  const std::string guess = near ? fmt::format(", did you mean '{}'?", *near) : "; --help all lists all flags";
  return Error{Code::kUsage, fmt::format("unknown flag '{}'{}", printable(spelling), guess), {}};
}

std::string range_and_default(std::optional<double> min, std::optional<double> max, std::string_view unit,
                              const std::string& default_text) {
  if (!min || !max) return "default: " + default_text;
  return fmt::format("{} to {}{}; default: {}", number_text(*min), number_text(*max), unit, default_text);
}

Result<> check_choice(std::string_view text, const std::vector<std::string>& choices,
                      const std::vector<std::string>& later) {
  if (std::find(later.begin(), later.end(), text) != later.end()) {
    return fail(Code::kUsage, "'{}' is not in this version of dtrain; choose from: {}", printable(text),
                fmt::join(choices, ", "));
  }
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return unknown_choice(text, choices);
  }
  return {};
}

Result<> check_range(std::string_view text, const NumberRange& numbers, std::optional<double> min,
                     std::optional<double> max) {
  if (min && numbers.min < *min) {
    return fail(Code::kUsage, "{} is less than {}{}", printable(text), number_text(*min), numbers.unit);
  }
  if (max && numbers.max > *max) {
    return fail(Code::kUsage, "{} is more than {}{}", printable(text), number_text(*max), numbers.unit);
  }
  return {};
}

}  // namespace dtrain::job
