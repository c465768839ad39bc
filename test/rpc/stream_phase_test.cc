#include "rpc/stream_phase.h"

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::rpc;
using Action = StreamPhase::Action;
using Event = StreamPhase::Event;

TEST_CASE("a stream that is closed finishes when its last write has gone", "[rpc]") {
  StreamPhase phase;
  CHECK(phase.is_open());
  CHECK(phase.on(Event::kClose) == Action::kCloseQueue);
  CHECK_FALSE(phase.is_open());
  CHECK(phase.on(Event::kClose) == Action::kNothing);
  CHECK(phase.on(Event::kDrained) == Action::kFinish);
  CHECK(phase.on(Event::kCut) == Action::kNothing);  // the context is gone
}

TEST_CASE("a stream that is cut finishes only when the cut no longer needs the call's context", "[rpc]") {
  StreamPhase phase;
  CHECK(phase.on(Event::kCut) == Action::kCloseQueue);
  CHECK(phase.on(Event::kDrained) == Action::kNothing);
  CHECK(phase.on(Event::kCut) == Action::kNothing);
  CHECK(phase.on(Event::kCutDone) == Action::kFinish);
}

// What server_stream.h does, with its events in any order that two threads can produce: whoever closes and whoever cuts
// may come at any time, the end of the writes at any time after the queue is closed.
TEST_CASE("in any order of events a stream finishes once, when it is drained and not being cut", "[rpc]") {
  for (uint64_t seed = 0; seed < 2000; seed++) {
    RandomStream random(seed, Use::kTest);
    StreamPhase phase;
    bool queue_closed = false, drained = false, cutting = false, finished = false;
    const auto carry_out = [&](Action action) {
      if (action == Action::kCloseQueue) {
        CHECK_FALSE(queue_closed);
        queue_closed = true;
      }
      if (action == Action::kFinish) {
        CHECK((drained && !cutting && !finished));
        finished = true;
      }
      return action;
    };
    for (int i = 0; i < 40 && !finished; i++) {
      const int64_t draw = random.below(4);
      if (draw == 0) carry_out(phase.on(Event::kClose));
      if (draw == 1 && queue_closed && !drained) {
        drained = true;
        carry_out(phase.on(Event::kDrained));
      }
      if (draw == 2 && !cutting) cutting = carry_out(phase.on(Event::kCut)) != Action::kNothing;
      if (draw == 3 && cutting) {
        cutting = false;
        carry_out(phase.on(Event::kCutDone));
      }
    }
    CHECK(finished);
  }
}
