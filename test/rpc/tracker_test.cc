// What an owner may rely on when it waits for its calls.
#include "rpc/tracker.h"

#include <future>
#include <memory>
#include <optional>
#include <stdexcept>

#include "support/catch.h"

namespace dtrain::rpc::test {

using namespace std::chrono_literals;

TEST_CASE("a tracker is idle once the last token is gone", "[rpc]") {
  Tracker tracker;
  CHECK(tracker.wait_idle(0ms));
  std::optional<Tracker::Token> token(tracker);
  CHECK(token->run([] {}));
  auto idle = std::async(std::launch::async, [&] { return tracker.wait_idle(); });
  token.reset();
  CHECK(idle.get());
}

TEST_CASE("after the limit of its owner a call reacts no more and may outlive it", "[rpc]") {
  auto tracker = std::make_unique<Tracker>();
  Tracker::Token token(*tracker);
  CHECK_FALSE(tracker->wait_idle(1ms));
  tracker.reset();
  bool ran = false;
  CHECK_FALSE(token.run([&] { ran = true; }));
  CHECK_FALSE(ran);
}

TEST_CASE("an owner waits for a running reaction beyond the limit", "[rpc]") {
  Tracker tracker;
  Tracker::Token token(tracker);
  std::promise<void> entered;
  std::promise<void> go_on;
  bool done = false;
  auto reaction = std::async(std::launch::async, [&] {
    token.run([&] {
      entered.set_value();
      go_on.get_future().wait();
      done = true;
    });
  });
  entered.get_future().wait();
  auto idle = std::async(std::launch::async, [&] { return tracker.wait_idle(1ms); });
  CHECK(idle.wait_for(50ms) == std::future_status::timeout);
  go_on.set_value();
  CHECK_FALSE(idle.get());
  CHECK(done);
  reaction.get();
}

TEST_CASE("a reaction that throws counts as ended", "[rpc]") {
  Tracker tracker;
  Tracker::Token token(tracker);
  CHECK_THROWS_AS(token.run([] { throw std::runtime_error("planted"); }), std::runtime_error);
  CHECK_FALSE(tracker.wait_idle(1ms));
}

}  // namespace dtrain::rpc::test
