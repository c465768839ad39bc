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

template <class Json>
Json parse_json(std::string_view text) {
  if (json_depth(text) > kJsonDepthMax) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, false);
}
template nlohmann::json parse_json(std::string_view text);
template nlohmann::ordered_json parse_json(std::string_view text);

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace dtrain
