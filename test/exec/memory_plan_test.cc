#include "exec/memory_plan.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "base/random.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

bool overlap(size_t a, size_t a_size, size_t b, size_t b_size) {
  return a < b + b_size && b < a + a_size;
}

size_t most_alive(const std::vector<Lifetime>& lives, size_t steps) {
  size_t most = 0;
  for (size_t s = 0; s < steps; s++) {
    size_t sum = 0;
    for (const Lifetime& life : lives) sum += life.first <= s && s <= life.last ? life.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

// Random lifetimes: values that are alive at the same time never overlap, and the arena is not much larger than
// necessary.
TEST_CASE("values that are alive together do not share memory", "[exec]") {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kTest);
    std::vector<Lifetime> lives;
    for (int i = 0; i < 40; i++) {
      const auto first = static_cast<size_t>(random.below(50));
      lives.push_back(
          {first, first + static_cast<size_t>(random.below(12)), 64 * static_cast<size_t>(1 + random.below(30))});
    }
    const Placement placement = place(lives);
    for (size_t a = 0; a < lives.size(); a++) {
      REQUIRE(placement.offset[a] % 64 == 0);
      REQUIRE(placement.offset[a] + lives[a].bytes <= placement.bytes);
      for (size_t b = a + 1; b < lives.size(); b++) {
        if (lives[a].first > lives[b].last || lives[b].first > lives[a].last) continue;
        REQUIRE_FALSE(overlap(placement.offset[a], lives[a].bytes, placement.offset[b], lives[b].bytes));
      }
    }
    CHECK(static_cast<double>(placement.bytes) <= 1.5 * static_cast<double>(most_alive(lives, 64)));
  }
}

// The first step writes a, the second reads a and writes b, the third reads b and writes c. While the second step reads
// a, b must be elsewhere; c may take the memory of a, which nothing reads anymore.
TEST_CASE("a value does not take the memory of one that is read in the same step", "[exec]") {
  const std::vector<MemoryValue> values(3, {.bytes = 64});
  const std::vector<MemoryStep> steps = {{.uses = {0}}, {.uses = {0, 1}}, {.uses = {1, 2}}};
  const MemoryPlan plan = plan_memory(values, steps, true);
  CHECK(plan.offset == std::vector<size_t>{0, 64, 0});
  CHECK(plan.arena_bytes == 128);
  CHECK(plan_memory(values, steps, false).offset == std::vector<size_t>{0, 64, 128});
}
