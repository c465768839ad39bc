#include "rpc/backlog.h"

#include "support/catch.h"

namespace dtrain::rpc {

using namespace std::chrono_literals;

TEST_CASE("reading pauses while too much waits, and a peer that takes nothing meanwhile is stuck", "[rpc]") {
  using Clock = Backlog::Clock;
  Backlog backlog(10);
  backlog.add(10);
  CHECK_FALSE(backlog.pauses_reading());
  backlog.add(4);
  backlog.add(4);
  CHECK_FALSE(backlog.stuck_since(Clock::time_point::max()));  // reading has not paused yet
  const auto before = Clock::now();
  CHECK(backlog.pauses_reading());
  CHECK_FALSE(backlog.stuck_since(before - 1ns));
  CHECK(backlog.stuck_since(Clock::time_point::max()) == 18);
  const auto paused = Clock::now();
  CHECK_FALSE(backlog.take(4));
  CHECK_FALSE(backlog.stuck_since(paused - 1ns));  // it has taken something since
  CHECK(backlog.take(10));
  CHECK_FALSE(backlog.stuck_since(Clock::time_point::max()));
}

}  // namespace dtrain::rpc
