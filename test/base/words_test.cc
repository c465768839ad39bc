#include "base/words.h"

#include <string>

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("lines are split into words, and blank lines are only counted", "[base]") {
  const std::string text = "a  b\n\n \t\r\n c\td\r\ne";
  const std::vector<WordLine> lines = word_lines(text);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].number == 1);
  CHECK(lines[0].words == std::vector<std::string_view>{"a", "b"});
  CHECK(lines[1].number == 4);
  CHECK(lines[1].words == std::vector<std::string_view>{"c", "d"});
  CHECK(lines[2].number == 5);
  CHECK(lines[2].words == std::vector<std::string_view>{"e"});
  CHECK(word_lines("").empty());
  CHECK(word_lines("\n\n").empty());
}

TEST_CASE("a text is trimmed at both ends and nowhere else", "[base]") {
  CHECK(trimmed(" \t a b\r\n") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \r\n").empty());
  CHECK(trimmed("").empty());
}

TEST_CASE("words are joined, the empty ones too", "[base]") {
  CHECK(joined({}, ", ") == "");
  CHECK(joined({"a"}, ", ") == "a");
  CHECK(joined({"a", "", "b"}, ", ") == "a, , b");
}

TEST_CASE("a comment extends from # to the end of the line", "[base]") {
  CHECK(without_comments("a # b\n#c\nd#\n") == "a \n\nd\n");
  CHECK(without_comments("#") == "");
  CHECK(without_comments("a") == "a");
}
