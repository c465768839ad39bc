#include "base/printable.h"

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("printable text keeps UTF-8 and escapes all other bytes", "[base]") {
  CHECK(printable("train.rec") == "train.rec");
  CHECK(printable("donn\u00e9es/\u65e5\u672c/\U0001f600") == "donn\u00e9es/\u65e5\u672c/\U0001f600");
  CHECK(printable("a\nb\tc\r") == "a\\x0ab\\x09c\\x0d");
  CHECK(printable("a\nb\tc", 200, "\t") == "a\\x0ab\tc");
  CHECK(printable("\x1b[31mred\x7f") == "\\x1b[31mred\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("donn\xe9"
                  "es") == "donn\\xe9es");                // Latin-1
  CHECK(printable("\xc2\x85") == "\\xc2\\x85");           // a control character in two bytes
  CHECK(printable("\xe6\x97") == "\\xe6\\x97");           // a truncated character
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // an overlong encoding of '/'
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // half of a surrogate pair
  CHECK(printable("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");
}

TEST_CASE("a long text loses its middle", "[base]") {
  const std::string text = "begin" + std::string(1 << 20, '-') + "end";
  const std::string shown = printable(text);
  CHECK(shown.size() < kQuotedBytesMax + 50);
  CHECK_THAT(shown, Catch::StartsWith("begin") && Catch::EndsWith("end") && Catch::Contains("(1048584 bytes)"));
  // The text is never cut inside a character.
  std::string accents;
  for (int i = 0; i < 200; i++) accents += "\u00e9";
  for (size_t most = 40; most < 60; most++) CHECK(printable(accents, most).find("\\x") == std::string::npos);
}
