// Texts of words: files of hosts, groups, shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

struct WordLine {
  int64_t number = 0;  // from 1, blank lines counted
  std::vector<std::string_view> words;
};

// The lines that are not blank, cut at blanks and tabs. They point into `text`.
std::vector<WordLine> word_lines(std::string_view text);

// The same lines, each without what follows its first '#'.
std::string without_comments(std::string_view text);

}  // namespace dtrain
