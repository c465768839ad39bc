// Reads and writes untrusted JSON safely. nlohmann's library has two traps. It parses arbitrarily deep nesting, and
// copying or writing such a value then overflows the stack. And it throws if a string that it writes is not UTF-8.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dtrain {

inline constexpr size_t kJsonDepthMax = 64;

// The largest number of brackets, [ and {, that are open at once. Brackets inside strings do not count.
size_t json_depth(std::string_view text);

// Parses JSON. The value is_discarded() if the text is not JSON or is nested deeper than kJsonDepthMax. Json is
// nlohmann::json or nlohmann::ordered_json.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text);

// Writes JSON. Bytes that are not valid UTF-8 are replaced by U+FFFD. With `indent` -1, the text is one line.
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace dtrain
