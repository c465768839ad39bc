#include "base/crc32c.h"

#include <string>

#include "support/catch.h"

using dtrain::crc32c;

namespace {
uint32_t crc_of(const std::string& text) {
  return crc32c(std::as_bytes(std::span(text)));
}
}  // namespace

// The examples of RFC 3720, B.4, and the check value of the polynomial.
TEST_CASE("crc32c gives the published values", "[base]") {
  CHECK(crc_of("123456789") == 0xe3069283);
  CHECK(crc_of(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc_of(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc_of("") == 0);
}

TEST_CASE("crc32c of a text in two parts is equal to that of the whole text", "[base]") {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const auto bytes = std::as_bytes(std::span(text));
  for (size_t cut = 0; cut <= text.size(); cut++) {
    CHECK(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))) == crc_of(text));
  }
}

// Long texts are summed in lanes, whose lengths the cuts do not respect.
TEST_CASE("crc32c of a long text is that of its bytes one by one", "[base]") {
  std::string text(20'011, '\0');
  for (size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i * i / 7 + i);
  const auto bytes = std::as_bytes(std::span(text));
  uint32_t crc = 0;
  for (size_t end = 0; end < bytes.size(); end++) {
    if (end % 500 == 0 || (end > 3'060 && end < 3'090)) REQUIRE(crc32c(bytes.first(end)) == crc);
    crc = crc32c(bytes.subspan(end, 1), crc);
  }
  CHECK(crc32c(bytes) == crc);
}
