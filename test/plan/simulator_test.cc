#include "plan/simulator.h"

#include <algorithm>
#include <numeric>

#include "audit.h"
#include "base/random.h"
#include "support/catch.h"
#include "sync/event_log.h"
#include "sync/text.h"

using namespace dtrain;
using namespace dtrain::sync;
using namespace dtrain::plan;

namespace {

constexpr uint64_t kSeeds = 500;

struct Climate {
  std::string_view name;
  bool is_lossy = false;
  double crash_share = 0, return_share = 0;
};
constexpr Climate kClimates[] = {{.name = "calm"},
                                 {.name = "lossy", .is_lossy = true},
                                 {.name = "crashes", .is_lossy = true, .crash_share = 0.3},
                                 {.name = "returns", .is_lossy = true, .crash_share = 0.4, .return_share = 0.7}};

// Two epochs with two servers and five workers, of which one is 4 times slower and one comes later. On a lossy network
// messages overtake each other. It ends after about three quarters of the run; in the calm that follows all workers
// must finish.
Setting setting_of(const Policy& policy, const Climate& climate) {
  const NetworkFaults lossy = {.faults = {.drop = 0.1, .duplicate = 0.1, .delay_max_ms = 3},
                               .until_ms = 80,
                               .resend_ms = 3,
                               .resend_max_ms = 12};
  return {.policy = policy,
          .servers = 2,
          .steps = 8,
          .epochs = 2,
          .step_ms = {1, 1, 4, 1, 1.5},
          .jitter = 0.5,
          .network = {.latency_ms = 0.05, .gbit_per_s = 1, .bytes = 10000},
          .network_faults = climate.is_lossy ? lossy : NetworkFaults{},
          .crash_share = climate.crash_share,
          .return_share = climate.return_share,
          .detect_ms = 1,
          .joins = {{.step = 3, .count = 1}}};
}

// Whether a path of audit.cc can be taken under a policy and a climate.
struct Applies {
  bool is_lossy, crashes, returns;
  bool has_groups;  // of several members
  bool several;     // groups
  bool bound, backup, snapshots;
  Applies(const Policy& policy, const Climate& climate)
      : is_lossy(climate.is_lossy),
        crashes(climate.crash_share > 0),
        returns(climate.return_share > 0),
        has_groups(policy.group_of[0] == policy.group_of[1]),
        several(policy.group_of[0] != policy.group_of[4]),
        bound(policy.lead_max.has_value()),
        backup(policy.backup > 0),
        snapshots(policy.snapshots) {}
  [[nodiscard]] std::map<std::string_view, bool> paths() const {
    const bool parks = has_groups || bound;
    return {{"push dropped, its round was over", is_lossy},
            {"push dropped, its round was open", is_lossy && has_groups},
            {"push too late for its round", backup},
            {"late worker jumped over a step", backup},
            {"pull of a round that was over", is_lossy},
            {"pull parked for its own round", has_groups},
            {"pull parked by the bound", bound},
            {"pull answered at once", true},
            {"pull asked again while parked", is_lossy && parks},
            {"one event opened rounds of several groups", bound},
            {"round closed by a leave", crashes && has_groups},
            {"round opened by a leave of another group", crashes && bound},
            {"left with its gradient in the open round", crashes && has_groups},
            {"left while its pull was parked", crashes && parks},
            {"left as the last of its group", true},
            {"message of a worker that left", crashes},
            {"message of a process that was replaced", returns},
            {"crash", crashes},
            {"joined", true},
            {"joined, its gradient still in the open round", returns && has_groups},
            {"joined for a later round", returns || several},
            {"joined behind the bound", returns && bound},
            {"refresh brought newer weights", snapshots && several},
            {"refresh while others had gone on", snapshots && several && is_lossy},
            {"refresh came again in a later step", is_lossy},
            {"request lost", is_lossy},
            {"request sent again", is_lossy},
            {"answer lost", is_lossy},
            {"answer came again", is_lossy}};
  }
};

struct Seen {
  std::map<std::string_view, uint64_t> paths = {};
  Step lead_max = 0, spread_max = 0;
};

void simulate_seed(const Setting& setting, uint64_t seed, Seen& seen) {
  INFO("seed " << seed);
  Audit audit(setting);
  Observer* const observers[] = {&audit};
  const Outcome outcome = simulate(setting, seed, observers);
  audit.finish(outcome);
  INFO((audit.broken.empty() ? "" : audit.event_log));
  REQUIRE(audit.broken == std::vector<std::string>{});
  for (const auto& [path, count] : audit.paths) seen.paths[path] += count;
  seen.lead_max = std::max(seen.lead_max, audit.lead_max);
  seen.spread_max = std::max(seen.spread_max, audit.spread_max);
  if (seed % 25 != 0) return;
  Audit again(setting);  // must be deterministic, or the seed is worth nothing
  Observer* const again_observers[] = {&again};
  CHECK(simulate(setting, seed, again_observers).seconds == outcome.seconds);
  CHECK(again.event_log == audit.event_log);
  std::string replayed;
  const Replay replay = sync::replay(audit.event_log, [&](std::string_view piece) { replayed += piece; }).value();
  CHECK_FALSE(replay.difference.has_value());
  CHECK(replayed == audit.event_log);
  CHECK(replay.events == outcome.events);
}

// Checks what every scheme promises, in the words of audit.cc, and that everything that may happen has happened with
// some seed.
void simulate_seeds(const Policy& policy) {
  for (const Climate& climate : kClimates) {
    INFO(to_text(policy) << ", " << climate.name);
    const Setting setting = setting_of(policy, climate);
    Seen seen;
    for (uint64_t seed = 1; seed <= kSeeds; seed++) simulate_seed(setting, seed, seen);
    const std::map<std::string_view, bool> applies = Applies(policy, climate).paths();
    for (const auto& [path, count] : seen.paths) {
      INFO(path);
      CHECK((count > 0 || !applies.at(path)));
    }
    // A worker that comes back may be further behind than the bound: it begins where it left.
    if (!policy.lead_max || climate.return_share > 0) continue;
    CHECK(seen.lead_max == *policy.lead_max);  // reached, but never exceeded
    CHECK(seen.spread_max == *policy.lead_max + 1);
  }
}

}  // namespace

TEST_CASE("bsp keeps its guarantees under network faults", "[plan][sim]") {
  simulate_seeds(bsp(5));
}
TEST_CASE("bsp with a backup worker keeps its guarantees under network faults", "[plan][sim]") {
  simulate_seeds(bsp(5, 1));
}
TEST_CASE("asp keeps its guarantees under network faults", "[plan][sim]") {
  simulate_seeds(asp(5));
}
TEST_CASE("ssp keeps its guarantees under network faults", "[plan][sim]") {
  for (const Step lead : {0, 1, 3}) simulate_seeds(ssp(5, lead));
}
TEST_CASE("gsp keeps its guarantees under network faults", "[plan][sim]") {
  simulate_seeds(gsp({0, 0, 1, 1, 2}));
}
TEST_CASE("gsp with a bound keeps its guarantees under network faults", "[plan][sim]") {
  simulate_seeds(gsp({0, 0, 1, 1, 2}, 1));
}

// Random speeds: max clock - min clock <= bound + 1 at any time, and <= bound among workers that compute.
TEST_CASE("ssp keeps its bound at any speeds", "[plan][sim]") {
  for (const Step bound : {0, 1, 3, 10}) {
    Seen seen;
    for (uint64_t seed = 1; seed <= 100; seed++) {
      Setting setting = {.policy = ssp(6, bound), .steps = 40, .step_ms = std::vector<double>(6), .jitter = 0.3};
      RandomStream random(seed, Use::kTest);
      for (double& ms : setting.step_ms) ms = random.uniform(1, 10);
      simulate_seed(setting, seed, seen);
    }
    CHECK(seen.lead_max == bound);
    CHECK(seen.spread_max == bound + 1);
  }
}

TEST_CASE("without crashes every gradient is applied, in as many updates as the scheme says", "[plan][sim]") {
  const auto outcome_of = [](const Policy& policy) {
    const auto workers = policy.group_of.size();
    return simulate({.policy = policy, .steps = 9, .epochs = 2, .step_ms = std::vector<double>(workers, 10)}, 1);
  };
  CHECK(outcome_of(bsp(4)).updates == 18);
  // Workers that compute when the epoch's last gradient is applied still finish their step.
  CHECK(outcome_of(asp(4)).updates == 4 * 18 + 3);
  CHECK(outcome_of(ssp(4, 2)).updates == 4 * 18);
  CHECK(outcome_of(gsp({0, 0, 1, 1})).updates == 2 * 18 + 1);
  CHECK(outcome_of(bsp(4, 1)).updates == 24);  // of 3 gradients each
  CHECK(outcome_of(bsp(4)).applied == 4 * 18);
  CHECK(outcome_of(bsp(1)).seconds == Approx(18 * 0.0102 + 2 * 0.0002));  // 0.2 ms for a round trip
}

// Two workers of 10 and 30 ms per step on an infinitely fast network. BSP and SSP take the slow worker's time for its
// steps; without a bound the fast worker does three quarters of the work.
TEST_CASE("simulated times follow from the speeds", "[plan][sim]") {
  const auto outcome_of = [](const Policy& policy) {
    const NetworkSetting network = {.latency_ms = 0, .gbit_per_s = 0};
    return simulate({.policy = policy, .steps = 60, .step_ms = {10, 30}, .network = network}, 1);
  };
  const Outcome of_bsp = outcome_of(bsp(2)), of_ssp = outcome_of(ssp(2, 3)), of_asp = outcome_of(asp(2));
  CHECK(of_bsp.seconds == Approx(1.8));
  CHECK(of_bsp.workers[0].waiting_s == Approx(1.2));
  CHECK(of_bsp.workers[1].waiting_s == Approx(0).margin(1e-9));
  CHECK(of_ssp.seconds == Approx(1.8));
  CHECK(of_ssp.workers[0].computing_s == Approx(0.6));
  CHECK(of_asp.seconds == Approx(0.93));
  CHECK(of_asp.workers[0].steps == 90);
  CHECK(of_asp.workers[1].steps == 31);
  CHECK(of_bsp.staleness == std::map<uint64_t, uint64_t>{{1, 60}});
  CHECK(of_asp.staleness.rbegin()->first == 4);  // of the slow worker: the fast one makes three updates in between
}

// 4 workers send 1 MB each to a server with 1 Gbit/s: one after the other, 8 ms each, and the same on the way back.
TEST_CASE("messages queue for the connection of a server", "[plan][sim]") {
  const NetworkSetting network = {.latency_ms = 1, .gbit_per_s = 1, .bytes = 1'000'000};
  const Outcome one =
      simulate({.policy = bsp(4), .steps = 1, .step_ms = std::vector<double>(4, 10), .network = network}, 1);
  // First weights: 1 ms for the request; the last of four answers arrives 1 + 4 x 8 ms later. Then 10 ms of computing,
  // and 1 + 4 x 8 ms each way. The first worker began 3 x 8 ms before the last one, though, so on the way to the server
  // only the last gradient counts.
  CHECK(one.seconds * 1000 == Approx(1 + 33 + 10 + 9 + 33));
  Setting two = {.policy = bsp(4), .servers = 2, .steps = 1, .step_ms = std::vector<double>(4, 10), .network = network};
  CHECK(simulate(two, 1).seconds < one.seconds);
  CHECK(simulate(two, 1).bytes == one.bytes);
}

// No time is asserted. If an event looked at all workers, this test would take minutes.
TEST_CASE("ten thousand workers are simulated", "[plan][sim]") {
  constexpr uint32_t kWorkers = 10000;
  std::vector<Group> groups(kWorkers);
  for (Worker w = 0; w < kWorkers; w++) groups[w] = w / 1000;
  for (const Policy& policy : {bsp(kWorkers), bsp(kWorkers, 10), asp(kWorkers), ssp(kWorkers, 2), gsp(groups, 2)}) {
    INFO(to_text(policy).substr(0, 40));
    Setting setting = {.policy = policy, .steps = 5, .step_ms = std::vector<double>(kWorkers, 100), .jitter = 0.2};
    setting.step_ms[4711] = 300;
    const Outcome outcome = simulate(setting, 1);
    CHECK(outcome.all_finished);
    CHECK(outcome.applied >= uint64_t{5} * kWorkers);
    CHECK(outcome.applied + outcome.late == outcome.gradients);
  }
}

TEST_CASE("other workers wait for a killed worker until its death is detected", "[plan][sim]") {
  const NetworkSetting network = {.latency_ms = 0, .gbit_per_s = 0};
  const Setting setting = {.policy = bsp(2),
                           .steps = 10,
                           .step_ms = {10, 10},
                           .network = network,
                           .detect_ms = 500,
                           .kills = {{.worker = 1, .step = 4}}};
  const Outcome outcome = simulate(setting, 1);
  CHECK(outcome.all_finished);
  CHECK(outcome.seconds == Approx(0.04 + 0.5 + 0.05));
  CHECK(outcome.workers[1].steps == 4);
  CHECK(outcome.workers[0].waiting_s == Approx(0.49));
}
