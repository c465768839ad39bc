// Text from outside (files, peers, arguments), made fit for a terminal and a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

// Longer texts are cut when a message quotes them.
inline constexpr size_t kQuotedBytesMax = 200;

// `text` as valid UTF-8 without control characters: each byte of those, and each byte that is not part of a UTF-8
// character, becomes \xNN. A text of more than `bytes_max` bytes loses its middle: "begin ... (N bytes) ... end".
std::string printable(std::string_view text, size_t bytes_max = kQuotedBytesMax);

}  // namespace dtrain
