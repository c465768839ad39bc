// Safe reading and writing of untrusted JSON. nlohmann's library has two traps. It parses arbitrarily deep nesting, and
// copying or writing such a value then overflows the stack. And it throws when a string that it writes is not UTF-8.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain {

inline constexpr size_t kJsonDepthMax = 64;

// The largest number of brackets, [ and {, that are open at once. Brackets inside strings do not count.
size_t json_depth(std::string_view text);

// Parses JSON. The value is_discarded() if the text is not JSON or is nested deeper than kJsonDepthMax.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (json_depth(text) > kJsonDepthMax) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

// Writes JSON. Bytes that are not valid UTF-8 are replaced by U+FFFD. With `indent` -1, the text is one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dtrain
