// Makes untrusted text (from files, peers, arguments) safe to print on a terminal or in a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

// Texts longer than this are shortened when a message quotes them.
inline constexpr size_t kQuotedBytesMax = 200;

// Returns `text` as valid UTF-8 without control characters. Each byte of a control character, and each byte that is not
// part of a UTF-8 character, becomes \xNN. A text of more than `bytes_max` bytes is shortened to "begin ... (N bytes)
// ... end". The control characters in `kept` are not replaced.
std::string printable(std::string_view text, size_t bytes_max = kQuotedBytesMax, std::string_view kept = {});

// The text as one word of a shell's command line. It is quoted if it contains characters other than letters, digits and
// a few harmless ones.
std::string shell_word(std::string_view text);

}  // namespace dtrain
