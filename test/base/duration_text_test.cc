#include "base/duration_text.h"

#include "support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

TEST_CASE("a duration is shown in a suitable unit", "[base]") {
  CHECK(duration_text(0s) == "0.0 ms");
  CHECK(duration_text(260us) == "0.3 ms");
  CHECK(duration_text(9960us) == "10 ms");
  CHECK(duration_text(50ms) == "50 ms");
  CHECK(duration_text(999'600us) == "1.0 s");
  CHECK(duration_text(1500ms) == "1.5 s");
  CHECK(duration_text(9960ms) == "10 s");
  CHECK(duration_text(31s) == "31 s");
  CHECK(duration_text(90min) == "5400 s");
}

TEST_CASE("a long duration is shown in two units", "[base]") {
  CHECK(long_duration_text(-1s) == "0s");
  CHECK(long_duration_text(59400ms) == "59s");
  CHECK(long_duration_text(80s) == "1m20s");
  CHECK(long_duration_text(7260s) == "2h01m");
  CHECK(long_duration_text(100h) == "4d04h");
}
