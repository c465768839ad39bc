#include "graph/symbol/attribute_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/printable.h"
#include "base/words.h"

namespace dtrain::graph {

namespace {

template <class Number>
std::optional<Number> whole_text(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  return whole_text<int64_t>(trimmed(text));
}

std::optional<double> real_number(std::string_view text) {
  std::string_view value = trimmed(text);
  if (value.starts_with('+')) value.remove_prefix(1);
  const std::optional<double> number = whole_text<double>(value);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<bool> truth_value(std::string_view text) {
  const std::string lower = lower_case(trimmed(text));
  if (lower == "true" || lower == "1") return true;
  if (lower == "false" || lower == "0") return false;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> dimensions(std::string_view text) {
  std::string_view rest = trimmed(text);
  const bool round = rest.starts_with('(') && rest.ends_with(')');
  const bool square = rest.starts_with('[') && rest.ends_with(']');
  if (rest.size() < 2 || !(round || square)) return std::nullopt;
  rest = trimmed(rest.substr(1, rest.size() - 2));
  std::vector<int64_t> result;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view item = trimmed(rest.substr(0, comma));
    if (item.ends_with('L')) item.remove_suffix(1);  // in Python 2, a long integer ends in "L"
    const std::optional<int64_t> number = whole_number(item);
    if (!number) return std::nullopt;
    result.push_back(*number);
    rest = comma == std::string_view::npos ? std::string_view() : trimmed(rest.substr(comma + 1));
  }
  return result;
}

std::string python_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string python_text(bool value) {
  return value ? "True" : "False";
}

std::string python_text(std::pair<int64_t, int64_t> value) {
  return fmt::format("({}, {})", value.first, value.second);
}

bool is_hidden_attribute(std::string_view key) {
  return key.size() > 4 && key.starts_with("__") && key.ends_with("__");
}

const std::string* AttributeReader::find(std::string_view key, bool required) {
  known_.push_back(key);
  const auto found = attributes_.find(key);
  if (found != attributes_.end()) return &found->second;
  if (required) problem(fmt::format("the attribute '{}' is missing", key));
  return nullptr;
}

void AttributeReader::problem(std::string text) {
  if (!problem_) problem_ = std::move(text);
}

void AttributeReader::wrong(std::string_view key, const std::string& text, std::string_view expected) {
  problem(fmt::format("'{}' is '{}', but must be {}", key, printable(text), expected));
}

int64_t AttributeReader::number(std::string_view key, Range range, std::optional<int64_t> fallback) {
  const std::string* text = find(key, !fallback);
  if (text == nullptr) return fallback.value_or(range.first);
  const std::optional<int64_t> value = whole_number(*text);
  if (value && *value >= range.first && *value <= range.last) return *value;
  wrong(key, *text, fmt::format("a whole number from {} to {}", range.first, range.last));
  return range.first;
}

double AttributeReader::real(std::string_view key, std::optional<double> fallback) {
  const std::string* text = find(key, !fallback);
  if (text == nullptr) return fallback.value_or(0);
  const std::optional<double> value = real_number(*text);
  if (!value) wrong(key, *text, "a number");
  return value.value_or(0);
}

bool AttributeReader::truth(std::string_view key, bool fallback) {
  const std::string* text = find(key, false);
  if (text == nullptr) return fallback;
  const std::optional<bool> value = truth_value(*text);
  if (!value) wrong(key, *text, "True or False");
  return value.value_or(fallback);
}

AttributeReader::Pair AttributeReader::pair(std::string_view key, Range range, std::optional<Pair> fallback) {
  const std::string* text = find(key, !fallback);
  const Pair otherwise = fallback.value_or(Pair{range.first, range.first});
  if (text == nullptr) return otherwise;
  const std::optional<std::vector<int64_t>> value = dimensions(*text);
  if (value && value->empty() && fallback) return otherwise;  // an empty text means "not given" in MXNet
  const auto fits = [&](int64_t n) { return n >= range.first && n <= range.last; };
  if (value && value->size() == 2 && std::ranges::all_of(*value, fits)) return {(*value)[0], (*value)[1]};
  wrong(key, *text, fmt::format("two whole numbers from {} to {}, such as (3, 3)", range.first, range.last));
  return otherwise;
}

size_t AttributeReader::choice(std::string_view key, Names values, std::optional<size_t> fallback) {
  const std::string* text = find(key, !fallback);
  if (text == nullptr) return fallback.value_or(0);
  const auto* const found = std::ranges::find(values, std::string_view(*text));
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  wrong(key, *text, fmt::format("one of {}", fmt::join(values, ", ")));
  return 0;
}

void AttributeReader::only_truth(std::string_view key, bool value) {
  if (truth(key, value) != value) wrong(key, attributes_.find(key)->second, python_text(value));
}

void AttributeReader::only_number(std::string_view key, int64_t value) {
  const std::string* text = find(key, false);
  if (text != nullptr && whole_number(*text) != value) wrong(key, *text, fmt::format("{}", value));
}

void AttributeReader::only(std::string_view key, Names values) {
  choice(key, values, 0);
}

void AttributeReader::ignore(Names keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

std::optional<std::string> AttributeReader::finish() {
  for (const auto& [key, value] : attributes_) {
    if (problem_) break;
    if (is_hidden_attribute(key) || std::ranges::find(known_, std::string_view(key)) != known_.end()) continue;
    problem(fmt::format("the attribute '{}' is unknown; the known attributes are {}", printable(key),
                        fmt::join(known_, ", ")));
  }
  return problem_;
}

}  // namespace dtrain::graph
