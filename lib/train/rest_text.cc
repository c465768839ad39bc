#include "train/rest_text.h"

#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <vector>

namespace dtrain::train {
namespace {

constexpr int64_t kNumberMax = 1'000'000'000'000;

// Removes a number, from 0 to kNumberMax, from the beginning of `text`.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-' || number > kNumberMax) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<data::Share> take_share(std::string_view& text) {
  const std::optional<int64_t> begin = take_number(text);
  if (!begin || !take(text, '-')) return std::nullopt;
  const std::optional<int64_t> end = take_number(text);
  if (!end || *end < *begin) return std::nullopt;
  return data::Share{*begin, *end};
}

// Takes " 32:0-50,50-100" from the beginning of `text`.
std::optional<data::ReadPart> take_part(std::string_view& text) {
  if (!take(text, ' ')) return std::nullopt;
  const std::optional<int64_t> records = take_number(text);
  if (!records || !take(text, ':')) return std::nullopt;
  data::ReadPart part{.shares = {}, .records = *records};
  do {
    const std::optional<data::Share> share = take_share(text);
    if (!share) return std::nullopt;
    part.shares.push_back(*share);
  } while (take(text, ','));
  return part;
}

}  // namespace

std::string to_text(const data::EpochRest& rest) {
  if (rest.read.empty()) return {};
  std::string text = fmt::to_string(rest.first_step);
  for (const data::ReadPart& part : rest.read) {
    std::vector<std::string> shares;
    for (const data::Share& share : part.shares) shares.push_back(fmt::format("{}-{}", share.begin, share.end));
    text += fmt::format(" {}:{}", part.records, fmt::join(shares, ","));
  }
  return text;
}

Result<data::EpochRest> parse_rest(std::string_view text) {
  data::EpochRest rest;
  if (text.empty()) return rest;
  const auto wrong = [&] { return fail(Code::kData, "'{}' is not the rest of an epoch", text); };
  std::string_view left = text;
  const std::optional<int64_t> first = take_number(left);
  if (!first || left.empty()) return wrong();
  rest.first_step = *first;
  while (!left.empty()) {
    const std::optional<data::ReadPart> part = take_part(left);
    if (!part) return wrong();
    for (const data::Share& share : part->shares) {
      if (!rest.read.empty() && share.end > count_left(rest)) return wrong();
    }
    rest.read.push_back(*part);
  }
  return rest;
}

}  // namespace dtrain::train
