// Splits texts into lines of words, for files of hosts, groups and shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

struct WordLine {
  int64_t number = 0;  // counted from 1, including blank lines
  std::vector<std::string_view> words;
};

// The lines that are not blank, split at spaces and tabs. The words point into `text`.
std::vector<WordLine> word_lines(std::string_view text);

// Returns `text` without comments: each line is cut at its first '#'.
std::string without_comments(std::string_view text);

}  // namespace dtrain
