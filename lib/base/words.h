// Splits texts into words, and joins them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

struct WordLine {
  int64_t number = 0;  // number of the line, counted from 1, including blank lines
  std::vector<std::string_view> words;
};

// The words that are separated by spaces, tabs and carriage returns. They point into `line`.
std::vector<std::string_view> words_of(std::string_view line);

// The text without spaces, tabs and line ends at either end.
std::string_view trimmed(std::string_view text);

// The lines that are not blank, split into words. The words point into `text`.
std::vector<WordLine> word_lines(std::string_view text);

// The words, with `between` as separator.
std::string joined(const std::vector<std::string>& words, std::string_view between);

// Converts the letters A to Z to a to z.
std::string lower_case(std::string_view text);

// "1,281,167" for 1281167.
std::string with_thousands(int64_t number);

// The text of a nonnegative number, with at most `digits` digits after the point and without an exponent: "0.05",
// "0.0000125", "3".
std::string decimal_text(double number, int digits);

// For example "512 KiB" or "1.5 GiB".
std::string bytes_text(double bytes);

// Returns `text` without comments: each line ends before its first '#'. A byte order mark, which some editors write at
// the beginning of a file, is removed too.
std::string without_comments(std::string_view text);

}  // namespace dtrain
