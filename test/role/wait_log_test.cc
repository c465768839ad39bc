#include "role/process/wait_log.h"

#include <chrono>
#include <thread>

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace std::chrono_literals;
using dtrain::test::contains;
using dtrain::test::TempDir;

TEST_CASE("what a process waits for is logged with its name", "[role]") {
  const TempDir dir;
  const std::string file = dir.path("log");
  const Log log = Log::silent();
  REQUIRE(log.named("1").add_file(file).has_value());
  Waits waits;
  const Waits::Wait wait(waits, [] { return std::string("weights: key 3"); });
  const role::WaitLog wait_log(role::own_waits(waits), 1ms, log);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!contains(read_file(file).value(), "waiting 0 s for weights: key 3")) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

TEST_CASE("a wait that has not lasted long enough is not listed", "[role]") {
  Waits waits;
  const Waits::Wait wait(waits, [] { return std::string("the next batch"); });
  const role::LongWaits long_waits = role::own_waits(waits);
  CHECK(long_waits(3600).empty());
  CHECK(long_waits(0) == std::vector<std::string>{"waiting 0 s for the next batch"});
}
