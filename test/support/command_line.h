// Command lines of tests, written as they are typed:
//
//   run(command_line(dtrain_program(), "-n 2 -s 1 --network lenet --data-dir", dir.path("data"), more))
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace dtrain::test {

// A text in quotes is split at its spaces; a std::string is one word, even with spaces.
inline void add_words(std::vector<std::string>& all, const char* text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) all.push_back(word);
}
inline void add_words(std::vector<std::string>& all, const std::string& word) {
  all.push_back(word);
}
inline void add_words(std::vector<std::string>& all, const std::vector<std::string>& words) {
  all.insert(all.end(), words.begin(), words.end());
}

template <class... Parts>
std::vector<std::string> command_line(const Parts&... parts) {
  std::vector<std::string> all;
  (add_words(all, parts), ...);
  return all;
}

}  // namespace dtrain::test
