#include "doctor/facts.h"

#include "doctor/facts_json.h"

namespace dtrain::doctor {
namespace {

template <class Value>
std::string line_of(const Value& value) {
  return json_text(nlohmann::json(value));
}

template <class Value>
Result<Value> parse(std::string_view line, const char* what) {
  const nlohmann::json json = parse_json(line);
  if (!json.is_object())
    return fail(Code::kData, "dtrain doctor cannot parse this line as {}: {}", what, line.substr(0, 200));
  try {
    return json.get<Value>();
  } catch (const nlohmann::json::exception& error) {  // thrown if a value has another type than the member
    return fail(Code::kData, "dtrain doctor cannot parse this line as {}: {}", what, error.what());
  }
}

}  // namespace

std::string to_line(const Facts& facts) {
  return line_of(facts);
}
Result<Facts> parse_facts(std::string_view line) {
  return parse<Facts>(line, "the facts");
}
std::string to_line(const Contact& contact) {
  return line_of(contact);
}
Result<Contact> parse_contact(std::string_view line) {
  return parse<Contact>(line, "a contact");
}
std::string to_line(const PathSpeed& speed) {
  return line_of(speed);
}
Result<PathSpeed> parse_path_speed(std::string_view line) {
  return parse<PathSpeed>(line, "a speed");
}

const std::vector<std::string>& known_isa() {
  static const std::vector<std::string> all = {"sse4_2",  "avx",         "fma",         "avx2",
                                               "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile"};
  return all;
}

const std::vector<std::string>& needed_isa() {
  static const std::vector<std::string> needed = {
#ifdef __SSE4_2__
      "sse4_2",
#endif
#ifdef __AVX__
      "avx",
#endif
#ifdef __FMA__
      "fma",
#endif
#ifdef __AVX2__
      "avx2",
#endif
#ifdef __AVX512F__
      "avx512f",
#endif
  };
  return needed;
}

}  // namespace dtrain::doctor
