#include "train/thread_tuner.h"

#include <map>

#include "base/random.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::train;
using Catch::Contains;

namespace {

// A host on which a step takes `ms` with each number of decode threads, give or take `noise`, and waits for data for
// a part of that. After a change, the batches that were made before it keep the old speed for a few steps.
struct Host {
  std::map<int, double> ms;
  double noise = 0;
  double wait_share = 0.3;  // with the fewest threads; none with others
  RandomStream random{1, Use::kTest};
  std::vector<int> used = {};  // by step

  std::vector<std::string> run(ThreadTuner& tuner, int steps) {
    std::vector<std::string> decisions;
    for (int i = 0; i < steps; i++) {
      const int threads = tuner.threads();
      used.push_back(threads);
      const int old = used[used.size() - std::min<size_t>(used.size(), 4)];
      const double seconds = 1e-3 * ms.at(old) * (1 + noise * random.uniform(-1.0, 1.0));
      tuner.step(seconds, threads == ms.begin()->first ? wait_share * seconds : 0);
      if (auto decision = tuner.take_decision()) decisions.push_back(*std::move(decision));
    }
    return decisions;
  }
};

}  // namespace

TEST_CASE("more decode threads are kept if steps get faster beyond noise", "[train]") {
  ThreadTuner tuner({.threads = 1, .threads_max = 2});
  Host host{.ms = {{1, 10}, {2, 8}}, .noise = 0.2};
  const auto decisions = host.run(tuner, 2000);
  REQUIRE(decisions.size() == 1);
  CHECK_THAT(decisions[0], Contains("2 threads decode: a step takes") && Contains("ms with 1") && Contains("kept)"));
  CHECK(tuner.threads() == 2);
  // In turns: A B A B.
  std::vector<int> blocks;
  for (const int threads : host.used) {
    if (blocks.empty() || blocks.back() != threads) blocks.push_back(threads);
  }
  CHECK(blocks == std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
}

TEST_CASE("the number of decode threads stays if another one changes nothing", "[train]") {
  for (const double noise : {0.0, 0.3}) {
    INFO("noise " << noise);
    ThreadTuner tuner({.threads = 1, .threads_max = 2});
    Host host{.ms = {{1, 10}, {2, 10}}, .noise = noise};
    const auto decisions = host.run(tuner, 3000);
    REQUIRE(decisions.size() == 1);
    CHECK_THAT(decisions[0], Contains("1 thread decodes") && !Contains("kept"));
    CHECK(tuner.threads() == 1);
  }
}

TEST_CASE("fewer decode threads are tried if no step waits, or more do not help", "[train]") {
  ThreadTuner idle({.threads = 2, .threads_max = 4});
  CHECK(Host{.ms = {{1, 8}, {2, 10}}, .wait_share = 0}.run(idle, 3000).size() == 1);
  CHECK(idle.threads() == 1);
  ThreadTuner turns({.threads = 2, .threads_max = 3});
  Host host{.ms = {{2, 10}, {3, 11}, {1, 9}}};
  host.ms.erase(1);
  host.ms[1] = 9;
  host.wait_share = 0;
  host.run(turns, 3000);
  CHECK(turns.threads() == 1);
}

TEST_CASE("a direction that helps is followed to its end", "[train]") {
  ThreadTuner tuner({.threads = 4, .threads_max = 16});
  Host host{.ms = {{4, 10}, {6, 8}, {9, 6}, {13, 5}, {16, 5.5}}};
  const auto decisions = host.run(tuner, 5000);
  REQUIRE(decisions.size() == 1);
  CHECK(tuner.threads() == 13);
  CHECK_THAT(decisions[0], Contains("5.50 ms with 16 (1.100)"));
}

// Steps that take next to no time end their blocks by number.
TEST_CASE("the search ends for steps of any length", "[train]") {
  for (const double ms : {0.0, 1e-3, 60'000.0}) {
    INFO(ms << " ms");
    ThreadTuner tuner({.threads = 1, .threads_max = 2});
    Host host{.ms = {{1, ms}, {2, ms}}};
    CHECK(host.run(tuner, 6000).size() == 1);
    CHECK(tuner.threads() == 1);
  }
}

TEST_CASE("one thread on one core leaves nothing to try", "[train]") {
  ThreadTuner tuner({.threads = 1, .threads_max = 1});
  Host host{.ms = {{1, 10}}};
  const auto decisions = host.run(tuner, 500);
  REQUIRE(decisions.size() == 1);
  CHECK_THAT(decisions[0], Contains("1 thread decodes: 30.0 % of the time"));
}

TEST_CASE("the search begins again only if the share of waits changes greatly", "[train]") {
  ThreadTuner tuner({.threads = 1, .threads_max = 2});
  Host host{.ms = {{1, 10}, {2, 10}}, .wait_share = 0.05};
  CHECK(host.run(tuner, 3000).size() == 1);
  host.wait_share = 0.15;
  CHECK(host.run(tuner, 20'000).empty());
  host.wait_share = 0.5;  // the disk has become slow, and a second thread helps now
  host.ms[1] = 20;
  CHECK(host.run(tuner, 20'000).size() == 1);
  CHECK(tuner.threads() == 2);
}
