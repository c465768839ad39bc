#include "data/records/sharding_file.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "base/printable.h"
#include "base/words.h"

namespace dtrain::data {

namespace {

// Fractions that are at most this far apart are the same border. The value is slightly more than 1e-6, because 1 -
// 0.999999 exceeds 1e-6 in binary.
constexpr double kSameBorder = 1.000001e-6;
constexpr size_t kDigitsMax = 64;

bool only_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

tl::unexpected<Error> no_number(std::string_view text) {
  return fail(Code::kUsage, "'{}' is not a number from 0 to 1", printable(text));
}

// Removes the exponent from the end of `text` and returns it: 0 if there is none, nullopt if it is invalid.
std::optional<int> take_exponent(std::string_view& text) {
  const size_t e = text.find_first_of("eE");
  if (e == std::string_view::npos) return 0;
  std::string_view digits = text.substr(e + 1);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  text = text.substr(0, e);
  constexpr int kMax = int{kDigitsMax};
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  if (!is_whole || exponent < -kMax || exponent > kMax) return std::nullopt;
  return exponent;
}

Result<Fraction> parse_line(const WordLine& line) {
  if (line.words.size() != 2)
    return fail(Code::kUsage, "the line must have 2 numbers, the start and the end of a share, but has {} words",
                line.words.size());
  Fraction fraction;
  DT_TRY(fraction.begin, Decimal::parse(line.words[0]));
  DT_TRY(fraction.end, Decimal::parse(line.words[1]));
  return fraction;
}

// Whether one share ends where the next one begins. False if there is an allowed gap between them.
Result<bool> is_same_border(const Decimal& end, const Decimal& next, bool allow_gaps) {
  const double gap = next.value() - end.value();
  if (gap < -kSameBorder)
    return fail(Code::kUsage, "the share begins at {}, but another share that begins earlier ends at {}", next.value(),
                end.value());
  if (gap <= kSameBorder || allow_gaps) return gap <= kSameBorder;
  return fail(Code::kUsage, "no share covers the records from {} to {} (--allow-gaps permits such gaps)", end.value(),
              next.value());
}

// Aligns the borders of a share with the end of the previous share, `before`, and with `one`, which is given only for
// the last share.
Result<> align(const Decimal& before, const Decimal* one, bool allow_gaps, Fraction& share) {
  DT_TRY(const bool begins_there, is_same_border(before, share.begin, allow_gaps));
  if (begins_there) share.begin = before;
  if (one != nullptr) {
    DT_TRY(const bool ends_there, is_same_border(share.end, *one, allow_gaps));
    if (ends_there) share.end = *one;
  }
  if (share.end.value() < share.begin.value()) {
    return fail(Code::kUsage, "the share ends at {}, before it begins at {}", share.end.value(), share.begin.value());
  }
  return {};
}

// The ranks in the order in which their shares lie in the data. An empty share precedes one that begins at the same
// place.
std::vector<size_t> by_place(const std::vector<Fraction>& shares) {
  std::vector<size_t> ranks(shares.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::ranges::stable_sort(
      ranks, {}, [&](size_t rank) { return std::pair(shares[rank].begin.value(), shares[rank].end.value()); });
  return ranks;
}

}  // namespace

Result<Decimal> Decimal::parse(std::string_view text) {
  std::string_view digits = text;
  const std::optional<int> exponent = take_exponent(digits);
  const size_t point = std::min(digits.find('.'), digits.size());
  std::string before(digits.substr(0, point)), behind(digits.substr(std::min(point + 1, digits.size())));
  if (!exponent || before.size() + behind.size() == 0 || digits.size() > kDigitsMax || !only_digits(before + behind)) {
    return no_number(text);
  }
  for (int i = 0; i < *exponent; i++) {  // move the decimal point to the right
    before += behind.empty() ? '0' : behind.front();
    behind.erase(0, behind.empty() ? 0 : 1);
  }
  for (int i = 0; i > *exponent; i--) {
    behind.insert(behind.begin(), before.empty() ? '0' : before.back());
    if (!before.empty()) before.pop_back();
  }
  before.erase(0, before.find_first_not_of('0'));
  Decimal number;
  if (before.size() > 1) return no_number(text);
  if (!before.empty()) number.whole_ = before[0] - '0';
  number.fraction_ = std::move(behind);
  if (number.value() > 1 + kSameBorder) return no_number(text);
  return number;
}

// Multiplies by long multiplication, from the last digit to the first. The carry stays below n.
int64_t Decimal::times(int64_t n) const {
  int64_t carry = 0, first_digit = 0;
  for (auto digit = fraction_.rbegin(); digit != fraction_.rend(); ++digit) {
    const int64_t product = (*digit - '0') * n + carry;
    first_digit = product % 10;
    carry = product / 10;
  }
  return whole_ * n + carry + (first_digit >= 5 ? 1 : 0);
}

double Decimal::value() const {
  const std::string text = fmt::format("{}.{}", whole_, fraction_);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<std::vector<Fraction>> parse_sharding_file(std::string_view text, const ShardingOptions& options) {
  const std::string plain = without_comments(text);
  const std::vector<WordLine> lines = word_lines(plain);
  if (std::ssize(lines) != options.workers) {
    return fail(Code::kUsage, "{}: {} lines for {} workers; there must be one line per worker, in the order of ranks",
                options.name, lines.size(), options.workers);
  }
  DT_TRY(const Decimal one, Decimal::parse("1"));
  const auto in_line = [&](size_t rank, const Error& error) {
    return fail(Code::kUsage, "{}:{}: {}", options.name, lines[rank].number, error.message);
  };
  std::vector<Fraction> shares;
  for (const WordLine& line : lines) {
    const Result<Fraction> share = parse_line(line);
    if (!share) return in_line(shares.size(), share.error());
    shares.push_back(*share);
  }
  Decimal before;
  const std::vector<size_t> ranks = by_place(shares);
  for (const size_t rank : ranks) {
    const Result<> aligned = align(before, rank == ranks.back() ? &one : nullptr, options.allow_gaps, shares[rank]);
    if (!aligned) return in_line(rank, aligned.error());
    before = shares[rank].end;
  }
  return shares;
}

std::vector<Share> shares_of(const std::vector<Fraction>& fractions, int64_t records) {
  std::vector<Share> shares;
  shares.reserve(fractions.size());
  for (const Fraction& fraction : fractions)
    shares.push_back({fraction.begin.times(records), fraction.end.times(records)});
  return shares;
}

std::string format_sharding_file(const std::vector<Share>& shares, int64_t records) {
  // With 15 digits, a border is off by less than half a record if there are fewer than 1e14 records.
  const auto fraction = [&](int64_t border) {
    return decimal_text(static_cast<double>(border) / static_cast<double>(records), 15);
  };
  std::string text;
  for (const Share& share : shares) text += fmt::format("{} {}\n", fraction(share.begin), fraction(share.end));
  return text;
}

}  // namespace dtrain::data
