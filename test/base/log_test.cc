#include "base/log.h"

#include <catch2/catch.hpp>

#include "base/file.h"
#include "support/temp_dir.h"

using namespace dtrain;

TEST_CASE("a log file gets every line", "[base]") {
  const test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  REQUIRE(log.add_file("/dev/null"));
  log.named("7").warn("lost {}", 3);
  CHECK_THAT(*read_file(dir.path("log")), Catch::EndsWith("Node[7] lost 3\n"));
}

TEST_CASE("a log file that cannot be written is refused when it is opened", "[base]") {
  const test::TempDir dir;
  Log log = Log::silent();
  const Result<> full = log.add_file("/dev/full");
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::kUsage);
  CHECK(full.error().message == "cannot write the log file '/dev/full': No space left on device");
  CHECK_THAT(log.add_file(dir.path("no/log")).error().message, Catch::EndsWith("No such file or directory"));
}
