#include "rpc/pulse_board.h"

#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

const Member kWorker{Role::kWorker, 1};
constexpr PulseBoard::Clock::time_point kNow;

proto::Heartbeat beat(int64_t sent_us, uint64_t step) {
  proto::Heartbeat message;
  message.set_sent_us(sent_us);
  message.set_step(step);
  return message;
}

}  // namespace

TEST_CASE("a heartbeat that a newer one has overtaken changes nothing", "[rpc]") {
  PulseBoard board;
  CHECK(board.all().empty());
  CHECK(board.hear(kWorker, 7, "node1", beat(100, 40), kNow));
  CHECK_FALSE(board.hear(kWorker, 7, "node1", beat(99, 39), kNow));
  REQUIRE(board.all().size() == 1);
  CHECK(board.all()[0].pulse.progress.step == 40);
  CHECK(board.all()[0].host == "node1");
}

TEST_CASE("a lost process stays lost until another one takes its rank", "[rpc]") {
  PulseBoard board;
  board.mark_lost(kWorker);  // it has never reported
  CHECK(board.all().empty());
  REQUIRE(board.hear(kWorker, 7, "node1", beat(100, 40), kNow));
  board.mark_lost(kWorker);
  REQUIRE(board.hear(kWorker, 7, "node1", beat(101, 41), kNow));
  CHECK(board.all()[0].is_lost);
  // Another process has another clock.
  REQUIRE(board.hear(kWorker, 8, "node2", beat(5, 1), kNow));
  CHECK_FALSE(board.all()[0].is_lost);
  CHECK(board.all()[0].pulse.progress.step == 1);
}

}  // namespace dtrain::rpc::test
