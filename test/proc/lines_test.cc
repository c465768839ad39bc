#include "proc/lines.h"

#include "support/catch.h"

using namespace dtrain::proc;

TEST_CASE("output is split into lines for any division of its bytes", "[proc]") {
  const std::string text = "first\n\nthird\nno newline";
  for (size_t piece = 1; piece <= text.size(); piece++) {
    std::vector<std::string> lines;
    const auto keep = [&](const std::string& line) { lines.push_back(line); };
    LineSplitter splitter;
    for (size_t at = 0; at < text.size(); at += piece) splitter.add(std::string_view(text).substr(at, piece), keep);
    splitter.finish(keep);
    REQUIRE(lines == std::vector<std::string>{"first", "", "third", "no newline"});
  }
}

TEST_CASE("a carriage return ends a line only where tools show how far they are", "[proc]") {
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  LineSplitter both(LineEnds::kReturnToo);
  both.add("\r 1 %\r 2 %\r\ndone\n", keep);
  CHECK(lines == std::vector<std::string>{"", " 1 %", " 2 %", "", "done"});
  lines.clear();
  LineSplitter newline;
  newline.add("a\rb\n", keep);
  CHECK(lines == std::vector<std::string>{"a\rb"});
}

TEST_CASE("an endless line is delivered in pieces of bounded size", "[proc]") {
  std::vector<size_t> sizes;
  LineSplitter splitter;
  splitter.add(std::string(2 * LineSplitter::kLineMax + 1, 'x'),
               [&](const std::string& line) { sizes.push_back(line.size()); });
  CHECK(sizes == std::vector<size_t>{LineSplitter::kLineMax, LineSplitter::kLineMax});
}

TEST_CASE("a line of exactly the maximum length is not split", "[proc]") {
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  LineSplitter splitter(4);
  splitter.add("abcd\n\nabcde\nab", keep);
  splitter.finish(keep);
  CHECK(lines == std::vector<std::string>{"abcd", "", "abcd", "e", "ab"});
}

TEST_CASE("the first words of a tool are told without ornaments and advice", "[proc]") {
  CHECK(first_words({}).empty());
  CHECK(first_words({"", "no such queue\r"}) == "no such queue");
  CHECK(first_words({"ssh: refused", "-----", "  ", "one", "two", "three"}) == "ssh: refused; one; two");
}
