// What a file is, by its first bytes: for the message when it is not what was asked for.
#pragma once

#include <string_view>

namespace dtrain {

// "a text file", "a pickled Python object", "a JPEG picture" and so on; "a file of another kind" if nothing is known.
// A few hundred bytes from the file's beginning are enough.
std::string_view file_kind(std::string_view first_bytes);

}  // namespace dtrain
