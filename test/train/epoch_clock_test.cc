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
  at.clock.skip_to_update(2);
  CHECK(at.clock.own_steps() == 2);
  at.clock.skip_to_update(7);  // the others are in the next epoch; this one ends after its 5 steps
  CHECK(at.clock.updates() == 7);
  CHECK(at.clock.own_steps() == 5);
  CHECK(at.clock.is_whole());
}

// They meet at a border of a job whose leads are bounded.
TEST_CASE("workers that stand at different steps divide the rest of an epoch so that they end it together", "[train]") {
  class Meeting final : public LocalCoordinator {
   public:
    using LocalCoordinator::LocalCoordinator;

   private:
    Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                  std::span<const uint32_t>) override {
      return std::vector<job::Contribution>{std::move(own), job::EpochEnd{.steps = 1}};
    }
  };
  const std::atomic<bool> never = false;
  SilentStore store;
  Meeting coordinator(never);
  const EpochRule rule{.same_weights = false, .samples = 100, .samples_per_step = 10, .samples_per_update = 10};
  EpochClock clock(rule, {}, {}, store, coordinator);
  AgreedStart start;
  start.position = {.epoch = 0, .step = 3, .own_steps = 3, .updates = 3, .samples = 30};
  clock.seek(start);
  REQUIRE(clock.agree_on_end({}));
  const Position slowest = clock.slowest_position();
  CHECK(slowest.step == 1);
  CHECK(slowest.own_steps == 1);
  CHECK(slowest.updates == 3);

  // The slowest has all five steps of the new rule to make, so this worker has three.
  EpochRule twice = rule;
  twice.samples_per_step = 20;
  Position at = slowest;
  at.step = 0;
  at.own_steps = 0;
  clock.change_rule_within_epoch(twice, at, {});
  CHECK(clock.own_steps() == 2);
  CHECK(clock.position().step == 2);
  CHECK(clock.slowest_position().step == 2);  // they have not met since
}

// Its group may be behind that of the worker whose position it has. It would end the epoch before the others of its
// group, which would then wait for it.
TEST_CASE("a worker that has joined has the steps still to make by which its group is behind", "[train]") {
  Clocked at;
  at.clock.skip_to_update(0);
  CHECK(at.clock.updates() == 0);
  CHECK(at.clock.own_steps() == 0);
  CHECK(at.clock.position().step == 0);
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
