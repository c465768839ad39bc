// Guesses the kind of a file from its first bytes, for error messages about files of the wrong kind.
#pragma once

#include <string_view>

namespace dtrain {

// "a text file", "a pickled Python object", "a JPEG image" and so on; "a file of another kind" if it is unknown. A
// few hundred bytes from the beginning of the file are enough.
std::string_view file_kind(std::string_view first_bytes);

}  // namespace dtrain
