#include "comm/invitation.h"

#include <string>
#include <vector>

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::comm;
using dtrain::test::must;

TEST_CASE("an invitation carries a secret and an address for each other rank", "[comm]") {
  const Secret secret = {1, 2, 3, 4};
  const std::string bytes = Invitation::serialize(1, 3, secret, std::vector<std::vector<char>>{{'a', 'b'}, {'c', 'd'}});
  const Invitation invitation = must(Invitation::parse(bytes, 1, 3, 2));
  CHECK(invitation.secret() == secret);
  CHECK(invitation.address_for(0) == std::vector<char>{'a', 'b'});
  CHECK(invitation.address_for(2) == std::vector<char>{'c', 'd'});
  CHECK(draw_secret() != draw_secret());

  const auto error = [](const std::string& text, uint32_t rank, uint32_t size, size_t address_bytes) {
    return Invitation::parse(text, rank, size, address_bytes).error().message;
  };
  CHECK_THAT(error(bytes, 1, 3, 3), Catch::Contains("instead of") && Catch::Contains("the same build"));
  CHECK_THAT(error("", 1, 3, 2), Catch::Contains("has 0 bytes"));
  CHECK_THAT(error(bytes, 0, 3, 2), Catch::Contains("rank 0 of 3 is invalid"));
  CHECK_THAT(error('x' + bytes.substr(1), 1, 3, 2), Catch::Contains("is invalid"));
}
