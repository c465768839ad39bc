#include "sync/machine.h"

#include "support/catch.h"
#include "sync/text.h"

using namespace dtrain;
using namespace dtrain::sync;

namespace {

std::vector<Effect> effects_of(Machine& machine, const Event& event) {
  std::vector<Effect> effects;
  machine.on(event, effects);
  return effects;
}

uint64_t staleness_of_next_push(Machine& machine, Worker worker) {
  for (const Effect& effect : effects_of(machine, Push{worker, machine.clock(worker)})) {
    if (const auto* apply = std::get_if<Apply>(&effect)) return apply->staleness;
  }
  return 0;
}

}  // namespace

// The groups push in the order A B C A B C A A B A C, each letter a complete push.
TEST_CASE("staleness counts the updates of other groups in between", "[sync]") {
  Machine machine(gsp({0, 1, 2}));
  std::vector<uint64_t> staleness;
  for (const Worker group : {0, 1, 2, 0, 1, 2, 0, 0, 1, 0, 2}) {
    staleness.push_back(staleness_of_next_push(machine, group));
  }
  CHECK(staleness == std::vector<uint64_t>{1, 2, 3, 3, 3, 3, 3, 1, 4, 2, 5});
}

TEST_CASE("a single group is never stale", "[sync]") {
  Machine machine(bsp(1), 40);
  CHECK(machine.version() == 40);
  for (int i = 0; i < 5; i++) CHECK(staleness_of_next_push(machine, 0) == 1);
  CHECK(machine.version() == 45);
}

// Worker 0 is fast; workers 1 and 2 stand still.
TEST_CASE("ssp lets a worker begin at most lead_max steps more than the slowest has finished", "[sync]") {
  Machine machine(ssp(3, 2));
  const auto may_begin = [&](Step step) {
    return std::holds_alternative<Answer>(effects_of(machine, Pull{0, step}).back());
  };
  for (Step step = 0; step < 3; step++) {
    CHECK(may_begin(step));
    effects_of(machine, Push{0, step});
  }
  CHECK_FALSE(may_begin(3));
  CHECK(machine.missing({0, 3}) == std::vector<Worker>{1, 2});
  effects_of(machine, Push{1, 0});
  CHECK(machine.missing({0, 3}) == std::vector<Worker>{2});
  const std::vector<Effect> released = effects_of(machine, Push{2, 0});
  REQUIRE(std::holds_alternative<Answer>(released.back()));
  CHECK(std::get<Answer>(released.back()).step == 3);
}

// Sends every event, with ranks and steps around the valid ones, in every state that 3 steps of 2 workers reach. The
// machine answers with Reject or Drop and stays intact.
TEST_CASE("the machine handles any sequence of events", "[sync]") {
  const std::vector<Policy> policies = {bsp(2), bsp(2, 1), asp(2), ssp(2, 1), gsp({0, 1}), gsp({0, 1}, 0)};
  const std::vector<uint64_t> numbers = {0, 1, 2, 3, 1000, UINT32_MAX};
  for (const Policy& policy : policies) {
    Machine machine(policy);
    for (Step step = 0; step < 3; step++) {
      for (const uint64_t worker : numbers) {
        for (const uint64_t other : numbers) {
          const auto w = static_cast<Worker>(worker);
          for (const Event& event : {Event(Push{w, other}), Event(Pull{w, other}), Event(Refresh{w, other}),
                                     Event(Join{w, other}), Event(Leave{w})}) {
            Machine copy = machine;
            INFO(to_text(event));
            const bool is_known = worker < 2;
            const std::vector<Effect> effects = effects_of(copy, event);
            if (!is_known) CHECK(std::holds_alternative<Reject>(effects.at(0)));
          }
        }
      }
      for (Worker w = 0; w < 2; w++) effects_of(machine, Push{w, step});
    }
    CHECK(machine.clock(0) == 3);
  }
}

TEST_CASE("events and policies are read back from their text", "[sync]") {
  for (const char* line :
       {"push 1 step 7", "pull 65535 step 18446744073709551615", "refresh 2 step 9", "join 0 step 0", "leave 3"}) {
    CHECK(to_text(parse_event(line).value()) == line);
  }
  for (const char* line : {"", "push", "push 1", "push 1 step", "push x step 1", "push 1 step 2 3", "push -1 step 2",
                           "refresh 1", "leave", "leave 1 step 2", "sit 1 step 2"}) {
    INFO(line);
    CHECK_FALSE(parse_event(line).has_value());
  }
  for (const char* line : {"bsp 3", "bsp 3 backup 2", "asp 3", "ssp 3 lead 0", "gsp 0 0 1", "gsp 1 0 lead 7"}) {
    CHECK(to_text(parse_policy(line).value()) == line);
  }
  CHECK(to_text(asp(1)) == "bsp 1");  // one worker: the same policy
  for (const char* line :
       {"", "bsp", "bsp x", "bsp 3 4", "bsp 3 backup 3", "bsp 3 backup x", "bsp 3 lead 1", "asp 3 lead 1", "asp 65537",
        "ssp 3", "ssp 3 lead", "gsp", "gsp 0 x", "gsp 9", "gsp 0 backup 1", "xsp 1"}) {
    INFO(line);
    CHECK_FALSE(parse_policy(line).has_value());
  }
}
