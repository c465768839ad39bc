#include "comm/invitation.h"

#include <string>
#include <vector>

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::comm;
using dtrain::test::must;

TEST_CASE("an invitation carries a secret and an address", "[comm]") {
  const Secret secret = {1, 2, 3, 4};
  const std::string bytes = Invitation::serialize(1, 3, secret, "ab");
  const Invitation invitation = must(Invitation::parse(bytes, 1, 3));
  CHECK(invitation.secret() == secret);
  CHECK(invitation.address() == "ab");
  CHECK(draw_secret() != draw_secret());

  const auto error = [](const std::string& text, uint32_t rank, uint32_t size) {
    return Invitation::parse(text, rank, size).error().message;
  };
  CHECK_THAT(error("", 1, 3), Catch::Contains("has 0 bytes"));
  CHECK_THAT(error(bytes, 0, 3), Catch::Contains("rank 0 of 3 is invalid"));
  CHECK_THAT(error('x' + bytes.substr(1), 1, 3), Catch::Contains("is invalid"));
}
