#include "rpc/step_gate.h"

#include <future>

#include "support/catch.h"
#include "support/patience.h"

namespace dtrain::rpc {

TEST_CASE("a held gate lets no step begin until the last step is known", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  CHECK(gate.may_begin(0).value());
  CHECK(gate.may_begin(1).value());
  CHECK(gate.hold(1) == 2);
  auto next = std::async(std::launch::async, [&] { return gate.may_begin(2); });
  dtrain::test::await([&] { return !waits.open().empty(); });
  CHECK(waits.open()[0].name == "the step to stop after, before step 2");
  SECTION("another worker has begun the step") {
    gate.stop_after({.number = 1, .steps = 3});
    CHECK(next.get().value());
    CHECK_FALSE(gate.may_begin(3).value());
    CHECK(gate.steps_begun() == 3);
  }
  SECTION("no worker has begun the step") {
    gate.stop_after({.number = 1, .steps = 2});
    CHECK_FALSE(next.get().value());
    CHECK(gate.steps_begun() == 2);
  }
  SECTION("this worker leaves") {
    CHECK_FALSE(gate.has_left());
    gate.leave(false);
    CHECK_FALSE(next.get().value());
    CHECK(gate.has_left());
    CHECK(gate.steps_begun() == 2);
    gate.stop_after({.number = 1, .steps = 3});
    CHECK_FALSE(gate.may_begin(2).value());
  }
  SECTION("the job fails") {
    gate.fail({Code::kPeerLost, "worker 1 was lost", {}});
    gate.fail({Code::kInternal, "later", {}});
    CHECK(next.get().error().message == "worker 1 was lost");
    CHECK_FALSE(gate.may_begin(2).has_value());
  }
}

TEST_CASE("a worker that cannot end its epoch waits for the border, wherever it stands", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  CHECK(gate.may_begin(0).value());
  auto border = std::async(std::launch::async, [&] { return gate.await_border(); });
  dtrain::test::await([&] { return !waits.open().empty(); });
  SECTION("at which all meet") {
    CHECK(gate.hold(1) == 1);
    gate.stop_after({.number = 1, .steps = 1, .meets = true});
    CHECK(border.get());
    CHECK(gate.border() == 1);
    gate.pass_border(1);
    CHECK(gate.may_begin(1).value());
  }
  SECTION("or stops") {
    CHECK(gate.hold(1) == 1);
    gate.stop_after({.number = 1, .steps = 1});
    CHECK(border.get());
    CHECK(gate.border() == 0);
    CHECK_FALSE(gate.may_begin(1).value());
  }
  SECTION("or leaves") {
    gate.leave(false);
    CHECK(border.get());
    CHECK(gate.has_left());
  }
  SECTION("or fails") {
    gate.fail({Code::kPeerLost, "worker 1 was lost", {}});
    CHECK(border.get().error().message == "worker 1 was lost");
  }
}

TEST_CASE("a run that goes back has begun no later step", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  for (uint64_t step = 0; step < 9; step++) CHECK(gate.may_begin(step).value());
  gate.go_to(4);
  CHECK(gate.hold(1) == 4);
  gate.stop_after({.number = 1, .steps = 5, .meets = true});
  CHECK(gate.may_begin(4).value());
  CHECK_FALSE(gate.may_begin(5).value());
  CHECK(gate.border() == 1);
}

TEST_CASE("a gate that leads to a border opens again when the border is passed", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  CHECK(gate.may_begin(0).value());
  CHECK(gate.hold(1) == 1);
  gate.stop_after({.number = 1, .steps = 2, .meets = true});
  CHECK(gate.may_begin(1).value());
  CHECK(gate.border() == 0);
  CHECK_FALSE(gate.may_begin(2).value());
  CHECK(gate.border() == 1);
  SECTION("and stays open, whatever is repeated") {
    gate.pass_border(1);
    CHECK(gate.border() == 0);
    CHECK(gate.may_begin(2).value());
    gate.hold(1);
    gate.stop_after({.number = 1, .steps = 2, .meets = true});
    CHECK(gate.may_begin(3).value());
  }
  SECTION("unless it is held again by then") {
    CHECK(gate.hold(2) == 2);
    gate.pass_border(1);
    auto next = std::async(std::launch::async, [&] { return gate.may_begin(2); });
    dtrain::test::await([&] { return !waits.open().empty(); });
    gate.stop_after({.number = 1, .steps = 2, .meets = true});  // late
    gate.stop_after({.number = 2, .steps = 2});
    CHECK_FALSE(next.get().value());
    CHECK(gate.border() == 0);
  }
}

TEST_CASE("a worker that is to leave at a border makes all steps before it", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  gate.leave(true);
  CHECK(gate.may_begin(0).value());
  CHECK(gate.hold(1) == 1);
  gate.stop_after({.number = 1, .steps = 2, .meets = true});
  CHECK(gate.may_begin(1).value());
  CHECK_FALSE(gate.has_left());
  CHECK_FALSE(gate.may_begin(2).value());
  CHECK(gate.has_left());
}

TEST_CASE("a border that is passed early, or unknown to the gate, holds nothing back", "[rpc]") {
  Waits waits;
  StepGate gate(waits);
  CHECK(gate.may_begin(0).value());
  CHECK(gate.hold(1) == 1);
  auto next = std::async(std::launch::async, [&] { return gate.may_begin(1); });
  dtrain::test::await([&] { return !waits.open().empty(); });
  gate.pass_border(2);
  CHECK(next.get().value());
  CHECK(gate.hold(2) == 2);
  CHECK(gate.may_begin(2).value());
}

}  // namespace dtrain::rpc
