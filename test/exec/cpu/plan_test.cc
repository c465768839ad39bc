#include <catch2/catch.hpp>

#include "base/random.h"
#include "exec/cpu/program.h"

using namespace dtrain;
using namespace dtrain::exec;
using namespace dtrain::exec::cpu;

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
TEST_CASE("values that are alive together do not share memory", "[exec][cpu]") {
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

namespace {

Kernel nothing() {
  return [](void* const*) {};
}

}  // namespace

// x -> a -> b -> c: b may overwrite a; c may not overwrite b, which is read once more.
TEST_CASE("a step works in place where the life of its input ends", "[exec][cpu]") {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  Program program(engine);
  const Md md({1024}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  const ValueId a = program.tensor(md), b = program.tensor(md), c = program.tensor(md), d = program.tensor(md);
  program.kernel(0, "make", nothing(), {out(a)});
  program.kernel(0, "first", nothing(), {in(a), out(b)}, {a});
  program.kernel(0, "second", nothing(), {in(b), out(c)}, {b});
  program.kernel(0, "third", nothing(), {in(b), in(c), out(d)});
  const MemoryPlan shared = program.plan_memory(true);
  CHECK(shared.offset[a] == shared.offset[b]);
  CHECK(shared.offset[b] != shared.offset[c]);
  CHECK(shared.arena_bytes == 3 * md.get_size());
  CHECK(program.plan_memory(false).arena_bytes == 4 * md.get_size());
}
