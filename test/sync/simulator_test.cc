#include "sync/simulator.h"

#include <catch2/catch.hpp>

using namespace dtrain;
using namespace dtrain::sync;

namespace {

constexpr uint64_t kSeeds = 500;

// Runs the seeds, each twice, and adds up how often each path was taken.
std::map<std::string_view, uint64_t> simulate_seeds(const Setting& setting, uint64_t seeds, Step lead_max) {
  std::map<std::string_view, uint64_t> paths;
  Step lead = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    INFO("seed " << seed);
    const Outcome run = simulate(setting, seed);
    INFO(run.trace);
    REQUIRE(run.broken == std::vector<std::string>{});
    REQUIRE(run.all_finished);
    REQUIRE(run.lead_max <= lead_max);
    REQUIRE(simulate(setting, seed).trace == run.trace);  // deterministic, or the seed is worth nothing
    for (const auto& [path, count] : run.paths) paths[path] += count;
    lead = std::max(lead, run.lead_max);
  }
  CHECK(lead == lead_max);  // a bound that no run touched was not tested
  return paths;
}

bool is_about_leaving(std::string_view path) {
  return path.find("left") != path.npos || path.find("leave") != path.npos || path.find("joined") != path.npos;
}

}  // namespace

// The invariants are the simulator's own: each gradient added once and applied once, in a round with all the live
// workers' gradients of one step; answers that hold what they must; nobody rejected, nobody waiting for ever.
TEST_CASE("bsp applies every gradient once in any weather", "[sync][sim]") {
  const Setting setting{.policy = bsp(5), .steps = 12, .leave_percent = 0};
  for (const auto& [path, count] : simulate_seeds(setting, kSeeds, 0)) {
    INFO(path);
    CHECK((count > 0 || is_about_leaving(path)));
  }
}

TEST_CASE("bsp goes on when workers crash and come back", "[sync][sim]") {
  const Setting setting{.policy = bsp(5), .steps = 12, .leave_percent = 30, .rejoin_percent = 50};
  for (const auto& [path, count] : simulate_seeds(setting, kSeeds, 0)) {
    INFO(path);
    CHECK(count > 0);
  }
}

TEST_CASE("bsp without crashes updates once a step", "[sync][sim]") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    CHECK(simulate({.policy = bsp(4), .steps = 9}, seed).updates == 9);
  }
}

// SSP: no worker begins a step more than lead_max ahead of the slowest live one, and nobody waits for ever, whatever
// the delays and whoever leaves. (Who comes back may be further behind than that: it begins where it had left.)
TEST_CASE("ssp keeps its bound and starves nobody", "[sync][sim]") {
  for (const Step lead : {0, 1, 3}) {
    simulate_seeds({.policy = ssp(5, lead), .steps = 20, .leave_percent = 20}, 100, lead);
  }
}

TEST_CASE("ssp finishes when workers come back far behind", "[sync][sim]") {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    const Outcome run = simulate({.policy = ssp(5, 2), .leave_percent = 30, .rejoin_percent = 100}, seed);
    INFO("seed " << seed << "\n" << run.trace);
    REQUIRE(run.broken == std::vector<std::string>{});
    REQUIRE(run.all_finished);
  }
}

TEST_CASE("asp updates once a gradient", "[sync][sim]") {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    const Outcome run = simulate({.policy = asp(4), .steps = 9}, seed);
    CHECK(run.broken == std::vector<std::string>{});
    CHECK(run.all_finished);
    CHECK(run.updates == 4 * 9);
  }
}

// The simulator holds that a snapshot has no gradient of the group's own later steps.
TEST_CASE("gsp is bsp within each group, and groups do not wait for each other", "[sync][sim]") {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    const Outcome run = simulate({.policy = gsp({0, 0, 1, 1, 1}), .steps = 9, .leave_percent = 20}, seed);
    INFO("seed " << seed << "\n" << run.trace);
    CHECK(run.broken == std::vector<std::string>{});
    CHECK(run.all_finished);
  }
}
