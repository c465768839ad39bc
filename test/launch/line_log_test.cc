#include "launch/line_log.h"

#include <filesystem>

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;
using dtrain::test::TempDir;

// A link to /dev/full stands for a file on a full disk; then a file takes its place.
TEST_CASE("a log on a full disk fails once, and counts its missing lines when there is room again", "[launch]") {
  const TempDir dir;
  const std::string path = dir.path("worker-0.log");
  LineLog log(path);
  REQUIRE(log.append("one"));
  std::filesystem::rename(path, dir.path("kept"));
  log = LineLog(path);
  std::filesystem::create_symlink("/dev/full", path);
  const Result<> failed = log.append("two");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "cannot write '" + path + "': No space left on device");
  CHECK(log.append("three"));
  std::filesystem::remove(path);
  std::filesystem::rename(dir.path("kept"), path);
  CHECK(log.append("four"));
  CHECK(log.append("five"));
  CHECK(read_file(path).value() == "one\n(2 lines are missing here, because they could not be written)\nfour\nfive\n");
}
