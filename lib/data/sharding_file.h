// The file data_sharding of MXNet-G (--data-allocator 1): one line per rank, "BEGIN END" as fractions of the records.
// Blank lines and comments, which begin with '#', are ignored. See docs/formats.md, "Shares (data_sharding)".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/share.h"

namespace dtrain::data {

// A number from 0 on as it was written, 0.15 or 5e-2, so that what is computed from it is rounded once.
class Decimal {
 public:
  Decimal() = default;
  static Result<Decimal> parse(std::string_view text);

  // round(this number * n), half away from 0, exactly.
  [[nodiscard]] int64_t times(int64_t n) const;
  [[nodiscard]] double value() const;

 private:
  int64_t whole_ = 0;     // below 10
  std::string fraction_;  // the digits behind the point
};

struct Fraction {
  Decimal begin, end;
};

struct ShardingOptions {
  std::string name;         // of the file, for messages
  int64_t workers = 0;      // so many lines there must be
  bool allow_gaps = false;  // --allow-gaps: records may belong to nobody
};

// By rank. Code::kUsage with name and line: another number of lines than workers, what is no number, borders that do
// not ascend, overlaps, and gaps unless they are allowed. What is closer than 1e-6 to the border before it, to 0 at the
// beginning or to 1 at the end, is that border: six decimals of 1/3 leave no record out.
Result<std::vector<Fraction>> parse_sharding_file(std::string_view text, const ShardingOptions& options);

// Borders round(N * fraction).
std::vector<Share> shares_of(const std::vector<Fraction>& fractions, int64_t records);

// The file of complete shares: with the same number of records it gives exactly these borders.
std::string format_sharding_file(const std::vector<Share>& shares, int64_t records);

}  // namespace dtrain::data
