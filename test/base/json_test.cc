#include "base/json.h"

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("the depth of a JSON text counts open brackets outside quotes", "[base]") {
  CHECK(json_depth("1") == 0);
  CHECK(json_depth("[]") == 1);
  CHECK(json_depth(R"({"a": [1, {"b": []}], "c": {}})") == 4);
  CHECK(json_depth(R"({"[[[[": "{{\"{{"})") == 1);
  CHECK(json_depth("]]]][") == 1);
}

TEST_CASE("JSON that is nested too deeply is not parsed", "[base]") {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_json(nested(kJsonDepthMax)).is_array());
  CHECK(parse_json(nested(kJsonDepthMax + 1)).is_discarded());
  CHECK(parse_json(nested(100'000)).is_discarded());
  CHECK(parse_json(std::string(100'000, '{')).is_discarded());
  CHECK(parse_json("[1,").is_discarded());
}

TEST_CASE("text that is not UTF-8 can be written", "[base]") {
  CHECK(json_text(nlohmann::json{{"path", "a\xe9"}}) == "{\"path\":\"a\ufffd\"}");
}
