// A training step asks for no memory: it would be asked for again in each of millions.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "fakes.h"
#include "train/log_lines.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/step.h"

namespace {

thread_local bool counts = false;
thread_local int allocations = 0;

}  // namespace

// Every `new` of this program; it only looks while a test says so. Not inlined, or g++ 12 takes the free below for a
// mistake.
__attribute__((noinline)) void* operator new(size_t size) {
  if (counts) allocations++;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer's own would not fit the deletes below.
__attribute__((noinline)) void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (counts) allocations++;
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

TEST_CASE("a step between two lines of the log allocates nothing", "[train]") {
  exec::DeviceGroup devices(std::make_unique<FakeExecutor>(), 1);
  SilentStore store;
  const graph::Graph graph;
  const std::vector<float> pixels(4, 0.5F);
  const std::vector<float> labels = {1};
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    StepRunner runner({.graph = graph,
                       .image = {1, 2, 2},
                       .devices = devices,
                       .bucket_begin = {0, 1},
                       .store = store,
                       .on_nan = on_nan,
                       .log = Log::silent()});
    Metrics metrics = *Metrics::create({.top_k = {2}, .losses = {"ce"}});
    Speedometer speedometer(1000, 1);
    Pace pace(1);
    allocations = 0;
    for (int64_t step = 0; step < 20; step++) {
      counts = step >= 10;
      const SteadyTime now = std::chrono::steady_clock::now();
      const bool applied = *runner.run({.data = pixels, .labels = labels, .count = 1}, static_cast<uint64_t>(step));
      const bool added = metrics.add(devices.probabilities(), labels, 1).has_value();
      pace.step(now, now, now, 0);
      const bool line = speedometer.tick(step, now).has_value();
      counts = false;
      REQUIRE(applied);
      REQUIRE(added);
      REQUIRE_FALSE(line);
    }
    CHECK(allocations == 0);
  }
}

TEST_CASE("the counter of allocations counts", "[train]") {
  allocations = 0;
  counts = true;
  const auto number = std::make_unique<int>(1);
  counts = false;
  CHECK(allocations == 1);
}
