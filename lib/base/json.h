// JSON from outside, and JSON of texts from outside. Both ways of nlohmann's library have a trap: what it parses may
// nest as deep as the text is long, and copying or writing that overflows the stack; and it throws when a text that it
// writes is not UTF-8.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain {

inline constexpr size_t kJsonDepthMax = 64;

// The largest number of brackets, [ and {, that are open at once. Those within quotes do not count.
size_t json_depth(std::string_view text);

// is_discarded() if the text is not JSON or nests deeper than kJsonDepthMax.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (json_depth(text) > kJsonDepthMax) return Json(nlohmann::detail::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

// Bytes that are not UTF-8 are replaced by U+FFFD. `indent` -1: one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dtrain
