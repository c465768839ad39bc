// How many lines refused calls get in the log.
#include "net/refusal_log.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::net::test {

using namespace std::chrono_literals;

TEST_CASE("refused calls get one line a second, which counts those that had none", "[rpc]") {
  const dtrain::test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  OncePerSecond::Clock::time_point now{1h};
  RefusalLog refusals(log, [&now] { return now; });
  refusals.warn("refused A");
  for (int i = 0; i < 3; i++) refusals.warn("refused B");
  now += 999ms;
  refusals.warn("refused C");
  now += 1ms;
  refusals.warn("refused D");
  now += 1s;
  refusals.warn("refused E");
  const std::string text = *read_file(dir.path("log"));
  CHECK_THAT(text, Catch::Contains("refused A\n"));
  CHECK_THAT(text, !Catch::Contains("refused B") && !Catch::Contains("refused C"));
  CHECK_THAT(text, Catch::Contains("refused D (4 more calls were refused since the last line)\n"));
  CHECK_THAT(text, Catch::Contains("refused E\n"));
}

}  // namespace dtrain::net::test
