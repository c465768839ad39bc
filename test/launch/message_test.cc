#include "launch/message.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::launch;

TEST_CASE("messages can contain any bytes", "[launch]") {
  std::string all;
  for (int byte = 0; byte < 256; byte++) all += static_cast<char>(byte);
  const std::vector<std::string> words = {"start", "", all, "a b", "%", "%%41", "--env=X=1 2\n3"};
  const std::string line = to_message(words);
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(parse_message(line.substr(0, line.size() - 1)).value() == words);
  CHECK(parse_message("").value().empty());
}

TEST_CASE("malformed messages are refused", "[launch]") {
  for (const char* line : {"out 1 a%4", "out %zz", "%1 out", "out %%"}) {
    INFO(line);
    const auto parsed = parse_message(line);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Code::kUsage);
  }
}
