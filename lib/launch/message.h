// Messages between a launcher and its agent on another host (agent.h), a line each: words with blanks between them. The
// bytes that would end a word or a line, and %, stand as %XX; an empty word is %. So any bytes can be sent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::launch {

// Neither side sends a longer line; what comes in a longer one is refused.
inline constexpr size_t kMessageMax = 16 << 20;

std::string to_message(const std::vector<std::string>& words);  // ends with the newline
// Without the newline. Code::kUsage: a % that nothing follows.
Result<std::vector<std::string>> parse_message(std::string_view line);

}  // namespace dtrain::launch
