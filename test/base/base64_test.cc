#include "base/base64.h"

#include "support/catch.h"

using namespace dtrain;

namespace {

std::string of(std::string_view text) {
  return base64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

// The vectors of RFC 4648, section 10.
TEST_CASE("bytes become base64", "[base]") {
  CHECK(of("") == "");
  CHECK(of("f") == "Zg==");
  CHECK(of("fo") == "Zm8=");
  CHECK(of("foo") == "Zm9v");
  CHECK(of("foob") == "Zm9vYg==");
  CHECK(of("fooba") == "Zm9vYmE=");
  CHECK(of("foobar") == "Zm9vYmFy");
  CHECK(of("\xff\xfe\xfb") == "//77");
}

TEST_CASE("only texts in base64 are taken for such", "[base]") {
  for (const char* text : {"", "Zg==", "Zm8=", "Zm9v", "//+7"}) CHECK(is_base64(text));
  for (const char* text : {"Z", "Zm9", "Z===", "====", "Zm=v", "Zm9\"", "Zm9\n", "Zm-_"}) CHECK(!is_base64(text));
}
