// Replaces tests whose library was missing when dtrain was built.
#include <iostream>

#include "support/catch.h"

TEST_CASE("the library for these tests is missing", "[cuda]") {
  std::cout << "skipped: no " DTRAIN_ABSENT "\n";
}
