#include "job/flags/value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/nearest.h"
#include "base/printable.h"
#include "base/words.h"

namespace dtrain::job {

namespace {

// Returns the number if the whole of `text` is one.
template <class T>
std::optional<T> whole(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

constexpr size_t kTextValueMax = 4096;  // largest length of a text: that of the longest path on Linux

struct Unit {
  std::string_view name;
  double factor;
};

// Removes the unit at the end of `text` and returns its factor; 1 if there is no unit.
double take_unit(std::string_view& text, std::initializer_list<Unit> units) {
  for (const Unit& unit : units) {
    if (text.size() > unit.name.size() && text.ends_with(unit.name)) {
      text = trimmed(text.substr(0, text.size() - unit.name.size()));
      return unit.factor;
    }
  }
  return 1;
}

}  // namespace

std::optional<bool> boolean_of(std::string_view text) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  const auto is_one_of = [&](const auto& words) {
    return std::ranges::any_of(words, [&](std::string_view word) { return std::ranges::equal(text, word, same); });
  };
  if (is_one_of(std::array{"1", "true", "yes", "on"})) return true;
  if (is_one_of(std::array{"0", "false", "no", "off"})) return false;
  return std::nullopt;
}

Result<> parse_value(std::string_view text, bool& value) {
  const std::optional<bool> meant = boolean_of(text);
  if (!meant) return fail(Code::kUsage, "'{}' is neither 0 nor 1", printable(text));
  value = *meant;
  return {};
}

Result<> parse_value(std::string_view text, int64_t& value) {
  std::string_view digits = trimmed(text);
  const auto factor = static_cast<int64_t>(take_unit(digits, {{"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}}));
  const std::optional<int64_t> parsed = whole<int64_t>(digits);
  const int64_t most = std::numeric_limits<int64_t>::max() / factor;
  if (!parsed || *parsed > most || *parsed < -most) {
    return fail(Code::kUsage, "'{}' is not a whole number", printable(text));
  }
  value = *parsed * factor;
  return {};
}

Result<> parse_value(std::string_view text, int& value) {
  int64_t wide = 0;
  DT_TRY_VOID(parse_value(text, wide));
  if (wide != static_cast<int>(wide)) return fail(Code::kUsage, "'{}' is too large", printable(text));
  value = static_cast<int>(wide);
  return {};
}

Result<> parse_value(std::string_view text, uint64_t& value) {
  const std::optional<uint64_t> parsed = whole<uint64_t>(trimmed(text));
  if (!parsed) return fail(Code::kUsage, "'{}' is not a whole number of at least 0", printable(text));
  value = *parsed;
  return {};
}

Result<> parse_value(std::string_view text, double& value) {
  const std::optional<double> parsed = whole<double>(trimmed(text));
  if (!parsed || !std::isfinite(*parsed)) return fail(Code::kUsage, "'{}' is not a number", printable(text));
  value = *parsed;
  return {};
}

Result<> parse_value(std::string_view text, std::string& value) {
  // A JobSpec has one line per value.
  if (text.find_first_of("\n\r") != std::string_view::npos)
    return fail(Code::kUsage, "the value has more than one line");
  if (text.size() > kTextValueMax) {
    return fail(Code::kUsage, "the value has {} characters, which is more than {}", text.size(), kTextValueMax);
  }
  value = text;
  return {};
}

Result<> parse_value(std::string_view text, std::chrono::milliseconds& value) {
  std::string_view digits = trimmed(text);
  const double seconds = take_unit(digits, {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}});
  const std::optional<double> parsed = whole<double>(digits);
  if (!parsed || !(*parsed >= 0) || *parsed * seconds > 1e9) {
    return fail(Code::kUsage, "'{}' is not a time such as 500ms, 2s, 5m or 1h", printable(text));
  }
  value = std::chrono::milliseconds(std::llround(*parsed * seconds * 1e3));
  return {};
}

// Parses the name of a rule, followed by a colon and a parameter for power (at least 0) and floor (from 0 to 1).
Result<> parse_value(std::string_view text, GspWeight& value) {
  using Rule = GspWeight::Rule;
  const size_t colon = std::min(text.find(':'), text.size());
  GspWeight parsed;
  DT_TRY_VOID(parse_value(text.substr(0, colon), parsed.rule));
  const bool has_parameter = parsed.rule == Rule::kPower || parsed.rule == Rule::kFloor;
  if (has_parameter != (colon < text.size())) {
    return fail(Code::kUsage, "'{}' must be inverse, none, power:A or floor:M", printable(text));
  }
  if (has_parameter) DT_TRY_VOID(parse_value(text.substr(colon + 1), parsed.parameter));
  if (parsed.parameter < 0 || (parsed.rule == Rule::kFloor && parsed.parameter > 1)) {
    return fail(Code::kUsage, "'{}' is out of range: A in power:A must be at least 0, M in floor:M from 0 to 1",
                printable(text));
  }
  value = parsed;
  return {};
}

// Parses "off", "fit" or a number of pixels.
Result<> parse_value(std::string_view text, Resize& value) {
  if (text == "off" || text == "fit") {
    value.edge = text == "fit" ? Resize::kFit : Resize::kOff;
    return {};
  }
  int64_t edge = 0;
  DT_TRY_VOID(parse_value(text, edge));
  if (edge < 0) return fail(Code::kUsage, "{} is less than 0", edge);
  value.edge = edge;
  return {};
}

std::string format_value(bool value) {
  return value ? "1" : "0";
}
std::string format_value(int64_t value) {
  return std::to_string(value);
}
std::string format_value(int value) {
  return std::to_string(value);
}
std::string format_value(uint64_t value) {
  return std::to_string(value);
}
std::string format_value(double value) {
  return fmt::format("{}", value);
}
std::string format_value(const std::string& value) {
  return value;
}
std::string format_value(std::chrono::milliseconds value) {
  return value.count() % 1000 == 0 ? fmt::format("{}s", value.count() / 1000) : fmt::format("{}ms", value.count());
}

std::string format_value(const GspWeight& value) {
  const std::string rule = format_value(value.rule);
  const bool has_parameter = value.rule == GspWeight::Rule::kPower || value.rule == GspWeight::Rule::kFloor;
  return has_parameter ? fmt::format("{}:{}", rule, value.parameter) : rule;
}

std::string format_value(const Resize& value) {
  if (value.edge == Resize::kFit) return "fit";
  return value.edge == Resize::kOff ? "off" : format_value(value.edge);
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  if (trimmed(text).empty()) return parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

tl::unexpected<Error> unknown_choice(std::string_view text, const std::vector<std::string>& choices) {
  const std::optional<std::string> near = nearest(text, choices);
  return fail(Code::kUsage, "there is no '{}'{} Choose from: {}", printable(text),
              near ? fmt::format(", did you mean '{}'?", *near) : ".", fmt::join(choices, ", "));
}

}  // namespace dtrain::job
