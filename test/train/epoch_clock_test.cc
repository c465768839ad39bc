#include "train/epoch_clock.h"

#include <atomic>

#include "fakes.h"
#include "support/catch.h"
#include "train/local_coordinator.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

// A clock of an epoch of 5 steps, at its second one.
struct Clocked {
  std::atomic<bool> stop = false;
  SilentStore store;
  LocalCoordinator coordinator{stop};
  EpochClock clock{{.samples = 50, .samples_per_step = 10, .samples_per_update = 10}, {}, {}, store, coordinator};
  Clocked() {
    AgreedStart start;
    start.position = {.epoch = 0, .step = 1, .own_steps = 1, .updates = 1, .samples = 10};
    clock.seek(start);
  }
};

}  // namespace

// Without this, the worker would make one step more than the others, and wait for them for ever.
TEST_CASE("a worker that has joined counts the steps that its seat has made", "[train]") {
  Clocked at;
  at.clock.skip_to_update(2);
  CHECK(at.clock.updates() == 2);
  CHECK(at.clock.own_steps() == 2);
  CHECK(at.clock.position().step == 2);
  at.clock.skip_to_update(1);  // as far as it is
  CHECK(at.clock.own_steps() == 2);
  at.clock.skip_to_update(7);  // the others are in the next epoch; this one ends after its 5 steps
  CHECK(at.clock.updates() == 7);
  CHECK(at.clock.own_steps() == 5);
  CHECK(at.clock.is_whole());
}

TEST_CASE("a worker goes back to the beginning of an update", "[train]") {
  Clocked at;
  const EpochClock::Mark mark = at.clock.mark();
  at.clock.step_done(true, 10);
  at.clock.step_done(true, 10);
  CHECK(at.clock.samples() == 30);
  at.clock.go_back(mark);
  CHECK(at.clock.own_steps() == 1);
  CHECK(at.clock.samples() == 10);
  CHECK(at.clock.take_unshared_samples() == 0);
}
