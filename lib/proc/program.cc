#include "proc/program.h"

#include "base/printable.h"

namespace dtrain::proc {

std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& word : arguments) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace dtrain::proc
