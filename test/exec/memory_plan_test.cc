#include "exec/memory_plan.h"

#include <algorithm>
#include <map>

#include "base/random.h"
#include "support/catch.h"

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
    const ArenaLayout layout = place(lives);
    for (size_t a = 0; a < lives.size(); a++) {
      REQUIRE(layout.offset[a] % 64 == 0);
      REQUIRE(layout.offset[a] + lives[a].bytes <= layout.bytes);
      for (size_t b = a + 1; b < lives.size(); b++) {
        if (lives[a].first > lives[b].last || lives[b].first > lives[a].last) continue;
        REQUIRE_FALSE(overlap(layout.offset[a], lives[a].bytes, layout.offset[b], lives[b].bytes));
      }
    }
    CHECK(static_cast<double>(layout.bytes) <= 1.5 * static_cast<double>(most_alive(lives, 64)));
  }
}

// More lifetimes than can be compared with each other, as those of a backward pass: the first to be born is the last to
// die, with short ones between them. No two that are alive at once share an address: at each step, the values that are
// alive are sorted by address.
TEST_CASE("a hundred thousand values are placed without comparing all with each other", "[exec]") {
  constexpr size_t kLong = 300, kShort = 100000;
  std::vector<Lifetime> lives;
  RandomStream random(7, Use::kTest);
  for (size_t i = 0; i < kLong; i++) {
    lives.push_back({i, kShort + kLong - i, 64 * static_cast<size_t>(random.below(4))});
  }
  for (size_t i = 0; i < kShort; i++) {
    lives.push_back({kLong / 2 + i, kLong / 2 + i + static_cast<size_t>(random.below(3)),
                     1 + static_cast<size_t>(random.below(500))});
  }
  REQUIRE(lives.size() > kComparedMax);
  const ArenaLayout layout = place(lives);
  const size_t steps = kShort + kLong + 1;
  std::vector<std::vector<size_t>> born(steps);
  for (size_t i = 0; i < lives.size(); i++) born[lives[i].first].push_back(i);
  std::map<size_t, size_t> alive;  // by address
  size_t most = 0, wrong = 0;
  for (size_t step = 0; step < steps; step++) {
    std::erase_if(alive, [&](const auto& one) { return lives[one.second].last < step; });
    for (const size_t i : born[step]) {
      if (lives[i].bytes > 0 && !alive.emplace(layout.offset[i], i).second) wrong++;
    }
    size_t sum = 0, end = 0;
    for (const auto& [offset, i] : alive) {
      if (offset < end || offset % 64 != 0) wrong++;
      end = offset + lives[i].bytes;
      sum += lives[i].bytes;
    }
    if (end > layout.bytes) wrong++;
    most = std::max(most, sum);
  }
  CHECK(wrong == 0);
  CHECK(static_cast<double>(layout.bytes) <= 1.5 * static_cast<double>(most));
}

// Each value is a view of the next one; the last one owns the memory.
TEST_CASE("a chain of a hundred thousand views has one place", "[exec]") {
  constexpr size_t kViews = 100000;
  std::vector<MemoryValue> values;
  std::vector<MemoryStep> steps;
  for (size_t v = 0; v < kViews; v++) {
    values.push_back({.bytes = 64, .alias_of = v + 1 < kViews ? std::optional(v + 1) : std::nullopt});
    steps.push_back({.uses = {v}});
  }
  const MemoryPlan plan = plan_memory(values, steps, true);
  CHECK(plan.arena_bytes == 64);
  CHECK(plan.offset == std::vector<size_t>(kViews, 0));
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
