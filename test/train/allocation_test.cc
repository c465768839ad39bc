// A training step must not allocate memory, because millions of steps would repeat it.

#include <memory>

#include "fakes.h"
#include "graph/graph.h"
#include "support/allocations.h"
#include "support/catch.h"
#include "train/log_lines.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/step.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

TEST_CASE("a training step between two log lines allocates no memory", "[train]") {
  exec::DeviceGroup devices(std::make_unique<FakeExecutor>(), 1);
  SilentStore store;
  const graph::Graph graph;
  const std::vector<float> pixels(4, 0.5F);
  const std::vector<float> labels = {1};
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    StepRunner runner({.graph = graph,
                       .inputs = {{.shape = {1, 2, 2}}},
                       .devices = devices,
                       .bucket_begin = {0, 1},
                       .store = store,
                       .on_nan = on_nan,
                       .log = Log::silent()});
    Metrics metrics = *Metrics::create({.top_k = {2}, .losses = {"ce"}});
    Speedometer speedometer(1000, 1);
    Pace pace(1);
    dtrain::test::allocations = 0;
    for (int64_t step = 0; step < 20; step++) {
      dtrain::test::counts_allocations = step >= 10;
      const SteadyTime now = std::chrono::steady_clock::now();
      const bool applied = *run_step(runner, {Batch::of(pixels, labels), 1}, static_cast<uint64_t>(step));
      const bool added = metrics.add(devices, labels, 1).has_value();
      pace.step(now, now, {}, 0);
      const bool line = speedometer.tick(step, now).has_value();
      dtrain::test::counts_allocations = false;
      REQUIRE(applied);
      REQUIRE(added);
      REQUIRE_FALSE(line);
    }
    CHECK(dtrain::test::allocations == 0);
  }
}

TEST_CASE("the allocation counter counts an allocation", "[train]") {
  dtrain::test::allocations = 0;
  dtrain::test::counts_allocations = true;
  const auto number = std::make_unique<int>(1);
  dtrain::test::counts_allocations = false;
  CHECK(dtrain::test::allocations == 1);
}
