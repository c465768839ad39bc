#include "kvstore/worker/request_stage.h"

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using Action = RequestStage::Action;
using Event = RequestStage::Event;

TEST_CASE("a request is queued, sent, and closed by its answer", "[kvstore]") {
  RequestStage stage;
  CHECK_FALSE(stage.is_open());
  CHECK(stage.on(Event::kAsk) == Action::kEnqueue);
  CHECK(stage.on(Event::kAsk) == Action::kForbidden);
  CHECK(stage.on(Event::kTake) == Action::kSend);
  CHECK(stage.on(Event::kSent) == Action::kNothing);
  CHECK(stage.waits());
  CHECK(stage.on(Event::kAnswer) == Action::kClose);
  CHECK(stage.on(Event::kAnswer) == Action::kNothing);  // a repeat
}

TEST_CASE("an answer that comes while the request is still sent counts when it has been sent", "[kvstore]") {
  RequestStage stage;
  CHECK(stage.on(Event::kAskNow) == Action::kSend);
  CHECK(stage.on(Event::kAnswer) == Action::kKeep);
  CHECK_FALSE(stage.waits());
  CHECK(stage.on(Event::kRepeat) == Action::kNothing);
  CHECK(stage.is_open());
  CHECK(stage.on(Event::kSent) == Action::kClose);
}

// Against counters: a thread that sends, a connection that breaks at any time, and answers to what has arrived.
// Messages that are sent on a connection that breaks before they are sent to their end are lost.
TEST_CASE("under random breaks each request is sent by one thread at a time and closed exactly once", "[kvstore]") {
  int all = 0;
  for (uint64_t seed = 0; seed < 2000; seed++) {
    RandomStream random(seed, Use::kTest);
    RequestStage stage;
    int asked = 0, closed = 0, queued = 0;
    bool is_sending = false, arrived = false, is_whole = false;
    const auto carry_out = [&](Action action) {
      CHECK(action != Action::kForbidden);
      if (action == Action::kEnqueue) queued++;
      if (action == Action::kSend) {
        CHECK_FALSE(is_sending);
        is_sending = is_whole = true;
      }
      if (action == Action::kClose) {
        closed++;
        CHECK(closed == asked);
        arrived = false;
      }
    };
    // Breaks end, so that all requests are answered.
    for (int i = 0; i < 300; i++) {
      const int64_t draw = random.below(i < 250 ? 6 : 4);
      if (draw == 0 && !stage.is_open() && i < 250) {
        asked++;
        carry_out(stage.on(random.below(2) == 0 ? Event::kAsk : Event::kAskNow));
      } else if (draw == 1 && queued > 0 && !is_sending) {
        queued--;
        carry_out(stage.on(Event::kTake));
      } else if (draw == 2 && is_sending) {
        is_sending = false;
        arrived = is_whole;
        carry_out(stage.on(Event::kSent));
      } else if (draw == 3 && stage.waits() && (arrived || (is_sending && is_whole))) {
        carry_out(stage.on(Event::kAnswer));
      } else if (draw >= 4) {
        is_whole = arrived = false;
        carry_out(stage.on(Event::kRepeat));
      }
    }
    CHECK(closed == asked);
    all += asked;
  }
  CHECK(all > 10000);
}
