#include "job/flags/toml_file.h"

#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

TEST_CASE("TOML that is nested too deeply is refused with its line", "[job]") {
  const std::string brackets(100'000, '['), braces(100'000, '{');
  std::string dots = "a";
  for (int i = 0; i < 100'000; i++) dots += ".a";
  const std::vector<std::string> texts = {"lr = 1\ntop-k = " + brackets, "lr = 1\n" + dots + " = 1",
                                          "lr = 1\n[" + dots + "]", "lr = 1\na = " + braces,
                                          "a = '''[[\n'''\na = \"[\\\"[\" # [\nb = " + brackets};
  for (size_t i = 0; i < texts.size(); i++) {
    INFO(i);
    const auto result = parse_toml(texts[i], "c.toml");
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, Contains("16 deep") && Contains(i == 4 ? "c.toml:4" : "c.toml:2"));
  }
}

TEST_CASE("brackets and dots in strings and comments do not count as nesting", "[job]") {
  const std::string many(100, '['), dots(100, '.');
  const auto result = parse_toml("a = [5, 10] # " + many + dots + "\nb = \"" + many + "\\\"" + dots + "\"\nc = '" +
                                     dots + "'\nd = \"\"\"" + many + "\n\"\"\"\ne = [0.1,0.2,0.3]\n",
                                 "c.toml");
  INFO((result ? "" : result.error().text()));
  REQUIRE(result);
  CHECK(result->size() == 5);
}

TEST_CASE("the error for a key of one megabyte is short", "[job]") {
  const auto result = parse_toml("[" + std::string(1 << 20, 'a') + "]\n", "c.toml");
  REQUIRE_FALSE(result);
  CHECK(result.error().text().size() < 5000);
}

}  // namespace dtrain::job
