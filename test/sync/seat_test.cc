#include "sync/seat.h"

#include "base/error.h"
#include "support/catch.h"

namespace dtrain::sync::seat {
namespace {

View view_of(uint64_t number, const std::vector<bool>& live) {
  View view{.number = number};
  for (size_t rank = 0; rank < live.size(); rank++) {
    view.workers.push_back({100 + rank, live[rank] ? Seat::State::kLive : Seat::State::kEmpty});
  }
  return view;
}

std::vector<uint32_t> leaving(Server& server, const View& view) {
  std::vector<ServerEffect> effects;
  server.on(view, effects);
  std::vector<uint32_t> ranks;
  for (size_t i = 0; i < effects.size(); i += 2) {  // first the streams end, so that nothing arrives after the Leave
    const uint32_t rank = std::get<EndStreams>(effects[i]).rank;
    CHECK(std::get<LeaveRounds>(effects.at(i + 1)).rank == rank);
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

TEST_CASE("a server takes each lost worker out of the rounds once", "[sync][seat]") {
  Server server(view_of(0, {true, true, true, true}));
  CHECK(leaving(server, view_of(1, {true, false, true, true})) == std::vector<uint32_t>{1});
  CHECK(leaving(server, view_of(1, {true, false, true, true})).empty());
  CHECK(leaving(server, view_of(3, {false, false, true, false})) == std::vector<uint32_t>{0, 3});
}

TEST_CASE("a server lets a new process in before its rounds wait for it", "[sync][seat]") {
  using Effects = std::vector<ServerEffect>;
  const auto effects_of = [](Server& server, const View& view) {
    Effects effects;
    server.on(view, effects);
    return effects;
  };
  Server server(view_of(0, {true, true, false}));
  View view = view_of(1, {true, true, false});
  view.workers[2] = {7, Seat::State::kJoining};
  CHECK(effects_of(server, view) == Effects{AdmitStreams{2, 7}});
  view.number = 2;
  view.workers[2] = {.incarnation = 7, .begin = 40};
  CHECK(effects_of(server, view) == Effects{JoinRounds{2, 40}});
  // It did not see that worker 1 was lost before another process came, nor that this one was only joining first.
  view.number = 5;
  view.workers[1] = {.incarnation = 8, .begin = 90};
  CHECK(effects_of(server, view) == Effects{EndStreams{1}, LeaveRounds{1}, AdmitStreams{1, 8}, JoinRounds{1, 90}});
  // One that never took part is in no round.
  view.number = 6;
  view.workers[2] = {9, Seat::State::kJoining};
  CHECK(effects_of(server, view) == Effects{EndStreams{2}, LeaveRounds{2}, AdmitStreams{2, 9}});
  view.number = 7;
  view.workers[2].state = Seat::State::kEmpty;
  CHECK(effects_of(server, view) == Effects{EndStreams{2}});
}

TEST_CASE("an old view that arrives late changes nothing", "[sync][seat]") {
  Server server(view_of(0, {true, true, true}));
  CHECK(leaving(server, view_of(2, {false, true, false})) == std::vector<uint32_t>{0, 2});
  CHECK(leaving(server, view_of(1, {false, true, true})).empty());
  CHECK(leaving(server, view_of(3, {false, true, false})).empty());
}

namespace {

using State = Worker::State;

// A worker that takes part with this rank.
Worker running(uint32_t rank, uint64_t incarnation) {
  Worker worker;
  (void)worker.ask(incarnation);
  worker.admit(rank, true);
  return worker;
}

}  // namespace

TEST_CASE("a worker that has lost its seat does not get it back by an old view", "[sync][seat]") {
  Worker worker = running(1, 101);
  CHECK_FALSE(worker.loses_by(view_of(1, {false, true, true})));
  CHECK(worker.loses_by(view_of(3, {false, false, true})));
  CHECK(worker.loses_by(view_of(2, {false, true, true})));
  Worker other = running(1, 7);  // another process has the rank
  CHECK(other.loses_by(view_of(1, {true, true, true})));
}

TEST_CASE("a worker that has lost its seat asks for it again as another incarnation", "[sync][seat]") {
  Worker worker;
  CHECK(worker.ask(101) == Worker::Request{.incarnation = 101});
  CHECK(worker.state() == State::kAsking);
  worker.admit(1, true);
  CHECK(worker.loses_by(view_of(3, {true, false, true})));
  CHECK(worker.ask(7) == Worker::Request{.incarnation = 7, .formerly = 101, .rank = 1});
  // Nothing that is said of the earlier incarnation counts.
  CHECK_FALSE(worker.loses_by(view_of(3, {true, false, true})));
  CHECK(worker.state() == State::kAsking);

  View joining = view_of(4, {true, false, true});
  joining.workers[1] = {.incarnation = 7, .state = Seat::State::kJoining};
  worker.admit(1, false);
  CHECK_FALSE(worker.loses_by(joining));
  CHECK(worker.state() == State::kPreparing);
  SECTION("it takes part") {
    worker.enter();
    CHECK(worker.state() == State::kRunning);
    joining.number = 5;
    joining.workers[1].state = Seat::State::kLive;
    CHECK_FALSE(worker.loses_by(joining));
    joining.number = 6;
    joining.workers[1].incarnation = 8;  // another process takes part in its place
    CHECK(worker.loses_by(joining));
  }
  SECTION("it is lost again before it takes part") {
    CHECK(worker.loses_by(view_of(5, {true, false, true})));
    worker.enter();  // the answer to its barrier was on its way
    CHECK(worker.state() == State::kLost);
    CHECK(worker.ask(8) == Worker::Request{.incarnation = 8, .formerly = 7, .rank = 1});
  }
}

TEST_CASE("a worker that ends by itself does not lose its seat by that", "[sync][seat]") {
  Worker worker = running(1, 101);
  worker.end();
  CHECK_FALSE(worker.loses_by(view_of(1, {true, false})));
  CHECK(worker.state() == State::kEnded);
  Worker lost = running(1, 101);
  CHECK(lost.loses_by(view_of(1, {true, false})));
  lost.end();
  CHECK(lost.state() == State::kLost);
}

TEST_CASE("a worker whose request is refused, or that has a seat, is not about to rejoin", "[sync][seat]") {
  Worker refused;
  (void)refused.ask(101);
  refused.refuse();
  CHECK(refused.state() == State::kOutside);
  Worker worker = running(0, 100);
  CHECK_THROWS_AS(worker.ask(5), CheckFailed);
  CHECK(worker.loses_by(view_of(1, {false, true})));
  CHECK_THROWS_AS(worker.ask(100), CheckFailed);
  CHECK_THROWS_AS(worker.admit(0, true), CheckFailed);
}

TEST_CASE("a server ends all streams before it goes back to a snapshot", "[sync][seat]") {
  Server server(view_of(0, {true, true, false}));
  View view = view_of(1, {true, false, true});
  view.restores = 1;
  view.restored = 40;
  std::vector<ServerEffect> effects;
  server.on(view, effects);
  CHECK(effects == std::vector<ServerEffect>{EndStreams{0, true}, EndStreams{1}, LeaveRounds{1}, JoinRounds{2, 0},
                                             Restore{40}, AdmitStreams{0, 100}, AdmitStreams{2, 102}});
  effects.clear();
  view.number = 2;
  server.on(view, effects);
  CHECK(effects.empty());
}

}  // namespace dtrain::sync::seat
