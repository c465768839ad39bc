#include "rpc/security.h"

#include "support/catch.h"

namespace dtrain::rpc {

TEST_CASE("two incarnations differ", "[rpc]") {
  CHECK(make_incarnation() != make_incarnation());
}

TEST_CASE("TLS needs all three files", "[rpc]") {
  CHECK(read_tls("a", "", "c").error().code == Code::kUsage);
  CHECK(read_tls("/no/such/file", "b", "c").error().code == Code::kNotFound);
}

}  // namespace dtrain::rpc
