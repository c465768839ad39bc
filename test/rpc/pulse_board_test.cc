#include "rpc/pulse_board.h"

#include <string>
#include <utility>

#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

const Member kWorker{Role::kWorker, 1};
MemberPulse at_step(uint64_t step, std::string host) {
  return {.member = kWorker, .host = std::move(host), .pulse = {.progress = {.step = step}}, .heard = {}};
}

}  // namespace

TEST_CASE("a heartbeat that a newer one has overtaken changes nothing", "[rpc]") {
  PulseBoard board;
  CHECK(board.all().empty());
  CHECK(board.hear(7, 100, at_step(40, "node1")));
  CHECK_FALSE(board.hear(7, 99, at_step(39, "node1")));
  REQUIRE(board.all().size() == 1);
  CHECK(board.all()[0].pulse.progress.step == 40);
  CHECK(board.all()[0].host == "node1");
}

TEST_CASE("a lost process stays lost until another one takes its rank", "[rpc]") {
  PulseBoard board;
  board.mark_lost(kWorker);  // it has never reported
  CHECK(board.all().empty());
  REQUIRE(board.hear(7, 100, at_step(40, "node1")));
  board.mark_lost(kWorker);
  REQUIRE(board.hear(7, 101, at_step(41, "node1")));
  CHECK(board.all()[0].is_lost);
  // Another process has another clock.
  REQUIRE(board.hear(8, 5, at_step(1, "node2")));
  CHECK_FALSE(board.all()[0].is_lost);
  CHECK(board.all()[0].pulse.progress.step == 1);
}

TEST_CASE("a process that has said goodbye stays ended until another one takes its rank", "[rpc]") {
  PulseBoard board;
  board.mark_ended(kWorker);  // it has never reported
  REQUIRE(board.hear(7, 100, at_step(40, "node1")));
  CHECK_FALSE(board.all()[0].has_ended);
  board.mark_ended(kWorker);
  REQUIRE(board.hear(7, 101, at_step(41, "node1")));
  CHECK(board.all()[0].has_ended);
  REQUIRE(board.hear(8, 5, at_step(1, "node2")));
  CHECK_FALSE(board.all()[0].has_ended);
}

}  // namespace dtrain::rpc::test
