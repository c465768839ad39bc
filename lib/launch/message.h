// Messages between a launcher and its agent on another host (agent.h). Each message is a line of words separated by
// blanks. Bytes that would end a word or a line, and %, are written as %XX, and an empty word as %, so any bytes can be
// sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::launch {

// Neither side sends a longer line; a longer line that arrives is rejected.
inline constexpr size_t kMessageMax = 16 << 20;

std::string to_message(const std::vector<std::string>& words);  // makes a message of the words; it ends with a newline
// The decimal number at the start of a word, or 0.
int64_t number_of(const std::string& word);
// `line` has no newline. Code::kUsage: a % without two hexadecimal digits after it.
Result<std::vector<std::string>> parse_message(std::string_view line);

}  // namespace dtrain::launch
