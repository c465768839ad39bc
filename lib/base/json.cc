#include "base/json.h"

#include <algorithm>

namespace dtrain {

size_t json_depth(std::string_view text) {
  size_t depth = 0, deepest = 0;
  bool in_quotes = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (in_quotes) {
      if (c == '\\') i++;
      in_quotes = c != '"';
    } else if (c == '"') {
      in_quotes = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      depth--;
    }
  }
  return deepest;
}

}  // namespace dtrain
