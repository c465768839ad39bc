// The file data_sharding of MXNet-G (--data-allocator 1): one line per rank, "BEGIN END" as fractions of the records.
// Blank lines and comments, which begin with '#', are ignored. See docs/formats.md, "Shares (data_sharding)".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/records/share.h"

namespace dtrain::data {

// A nonnegative decimal number exactly as it was written, such as 0.15 or 5e-2, so that a product with it is rounded
// only once.
class Decimal {
 public:
  Decimal() = default;
  static Result<Decimal> parse(std::string_view text);

  // round(this * n), half away from 0, exactly.
  [[nodiscard]] int64_t times(int64_t n) const;
  [[nodiscard]] double value() const;

 private:
  int64_t whole_ = 0;     // the number before the point, 0 to 9
  std::string fraction_;  // the digits after the point
};

struct Fraction {
  Decimal begin, end;
};

struct ShardingOptions {
  std::string name;         // the file's name, for messages
  int64_t workers = 0;      // the required number of lines
  bool allow_gaps = false;  // --allow-gaps: some records may belong to no share
};

// Returns the fractions, indexed by rank; their intervals may lie in any order in the data. Code::kUsage with name and
// line: the number of lines is not the number of workers, a word is not a number, a share ends before it begins, shares
// overlap, or there are gaps that are not allowed. A border that is closer than 1e-6 to the previous border in the data
// (or to 0 at the beginning, or to 1 at the end) is replaced by it, so that 1/3 written with six decimals leaves no
// record out.
Result<std::vector<Fraction>> parse_sharding_file(std::string_view text, const ShardingOptions& options);

// The shares of `records` records. The borders are round(records * fraction).
std::vector<Share> shares_of(const std::vector<Fraction>& fractions, int64_t records);

// The text of a file for shares that cover all records. Reading it with the same number of records gives the same
// borders.
std::string format_sharding_file(const std::vector<Share>& shares, int64_t records);

}  // namespace dtrain::data
