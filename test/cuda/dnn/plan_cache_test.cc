#include "cuda/dnn/plan_cache.h"

#include <chrono>
#include <fstream>
#include <iostream>

#include "cuda/dnn/networks.h"
#include "cuda/dnn/planner.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::cuda {

namespace {

double milliseconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void spill(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::vector<ConvolutionPass> some_passes() {
  const ConvolutionShape shape{
      256, 64, 56, 56, {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false}};
  std::vector<ConvolutionPass> passes;
  for (const Pass pass : {Pass::kForward, Pass::kForwardStatistics, Pass::kBackwardData, Pass::kBackwardFilter}) {
    passes.push_back({shape, pass, Type::kFloat16});
  }
  return passes;
}

}  // namespace

// The second planner stands for the next start: it reads the file and uses no heuristics.
TEST_CASE("a plan that was stored is made again without the heuristics", "[cuda]") {
  const test::TempDir dir;
  const std::string path = dir.path("plans.json");
  const Log log = Log::silent();
  PlanCache cache = PlanCache::open(path, log);
  CHECK(cache.size() == 0);
  test::must(Planner(h200(), {}).plan(some_passes()[0]));  // cuDNN loads its libraries here, which must not be measured
  Planner first(h200(), {}, {&cache});
  std::vector<std::string> tags;
  std::vector<size_t> workspaces;
  const double chosen_ms = milliseconds_of([&] {
    for (const ConvolutionPass& pass : some_passes()) {
      const Plan plan = test::must(first.plan(pass));
      tags.push_back(plan.tag());
      workspaces.push_back(plan.workspace_bytes());
    }
  });
  CHECK(first.chosen() == 4);
  CHECK(first.from_cache() == 0);
  test::must(cache.save());

  PlanCache read = PlanCache::open(path, log);
  CHECK(read.size() == 4);
  Planner second(h200(), {}, {&read});
  size_t i = 0;
  const double loaded_ms = milliseconds_of([&] {
    for (const ConvolutionPass& pass : some_passes()) {
      const Plan plan = test::must(second.plan(pass));
      CHECK(plan.tag() == tags[i]);
      CHECK(plan.workspace_bytes() == workspaces[i]);
      i++;
    }
  });
  CHECK(second.chosen() == 0);
  CHECK(second.from_cache() == 4);
  std::cout << fmt::format("4 plans chosen in {:.1f} ms, from the cache in {:.1f} ms, {} bytes\n", chosen_ms, loaded_ms,
                           test::must(read_file(path)).size());
}

TEST_CASE("other options, another operation or another device find no stored plan", "[cuda]") {
  PlanCache cache;
  const ConvolutionPass pass = some_passes()[0];
  test::must(Planner(h200(), {}, {&cache}).plan(pass));
  const auto chosen = [&](const Device& device, const PlanOptions& options, const ConvolutionPass& asked) {
    Planner planner(device, options, {&cache});
    test::must(planner.plan(asked));
    return planner.chosen();
  };
  CHECK(chosen(h200(), {}, pass) == 0);
  CHECK(chosen(h200(), {.deterministic = true}, pass) == 1);
  CHECK(chosen(h200(), {.workspace_bytes_max = 1 << 20}, pass) == 1);
  CHECK(chosen(h200(), {.tf32 = true}, pass) == 1);
  ConvolutionPass other = pass;
  other.shape.n = 128;
  CHECK(chosen(h200(), {}, other) == 1);
  std::string json = h200().json();
  json.replace(json.find("NVIDIA H200"), 11, "NVIDIA H100");
  CHECK(chosen(test::must(Device::described(json)), {}, pass) == 1);
}

// Truncates the file at every length and flips every bit: it is ignored, or has the stored plans.
TEST_CASE("a damaged file is ignored with a warning", "[cuda]") {
  const test::TempDir dir;
  const std::string path = dir.path("plans.json");
  const Log log = Log::silent();
  {
    PlanCache cache = PlanCache::open(path, log);
    cache.put("key", {"plan", 0.25});
    test::must(cache.save());
  }
  const std::string whole = test::must(read_file(path));
  for (size_t length = 0; length + 2 < whole.size(); length++) {
    spill(path, whole.substr(0, length));
    CHECK(PlanCache::open(path, log).size() == 0);
  }
  for (size_t i = 0; i < whole.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      spill(path, flipped);
      const PlanCache cache = PlanCache::open(path, log);
      const StoredPlan* plan = cache.find("key");
      const bool is_whole = plan != nullptr && plan->text == "plan" && plan->milliseconds == 0.25;
      CHECK((cache.size() == 0 || (cache.size() == 1 && is_whole)));
    }
  }
  for (const char* other : {"[]", "{}", R"({"format":"dtrain cuDNN plans 2"})", R"({"format":1,"plans":{}})",
                            R"({"format":"dtrain cuDNN plans 2","plans":{"key":"plan"}})"}) {
    spill(path, other);
    CHECK(PlanCache::open(path, log).size() == 0);
  }
}

TEST_CASE("a stored plan that cuDNN rejects is replaced by a new choice", "[cuda]") {
  for (const char* damage : {"", "{}", "no plan", "{\"engine\":"}) {
    INFO(damage);
    PlanCache cache;
    const ConvolutionPass pass = some_passes()[0];
    Planner planner(h200(), {}, {&cache});
    const std::string tag = test::must(planner.plan(pass)).tag();
    cache.put(h200().identity() + " | " + PlanOptions{}.key() + " | " + pass.text(), {damage});
    CHECK(test::must(planner.plan(pass)).tag() == tag);
    CHECK(planner.chosen() == 2);
    CHECK(test::must(planner.plan(pass)).tag() == tag);
    CHECK(planner.from_cache() == 1);
  }
}

TEST_CASE("a full cache drops entries that this run did not use", "[cuda]") {
  const test::TempDir dir;
  const std::string path = dir.path("plans.json");
  const Log log = Log::silent();
  PlanCache old = PlanCache::open(path, log);
  for (size_t i = 0; i < PlanCache::kPlansMax; i++) old.put("old " + std::to_string(i), {"plan"});
  test::must(old.save());
  PlanCache cache = PlanCache::open(path, log);
  CHECK(cache.find("old 7") != nullptr);
  cache.put("new", {"plan"});
  test::must(cache.save());
  const PlanCache read = PlanCache::open(path, log);
  CHECK(read.size() == 2);
  CHECK(read.find("old 7") != nullptr);
  CHECK(read.find("new") != nullptr);
}

// gpu-check carries plans between hosts in a compressed file, which a script of its own writes.
TEST_CASE("a measured plan that gpu-check has carried is used, and others are not carried", "[cuda]") {
  const test::TempDir dir;
  const Log log = Log::silent();
  PlanCache cache = PlanCache::open(dir.path("here.json"), log);
  cache.put("measured", {"a plan", 0.1234567890123});
  cache.put("long", {"a slow plan", 1e-7});
  cache.put("chosen", {"a plan"});
  test::must(cache.save());
  const auto merge = [&](const std::string& from, const std::string& into) {
    const test::Ended ended =
        test::run({"python3", DTRAIN_CUDA_DNN_TEST_DIR "/../../gpu/merge_plans.py", dir.path(from), dir.path(into)});
    INFO(ended.output);
    CHECK(ended.code == 0);
  };
  PlanCache there = PlanCache::open(dir.path("there.json"), log);
  there.put("long", {"another plan", 2});
  test::must(there.save());
  merge("here.json", "carried.json.gz");
  merge("carried.json.gz", "there.json");
  merge("missing.json.gz", "there.json");
  const PlanCache carried = PlanCache::open(dir.path("there.json"), log);
  CHECK(carried.size() == 2);
  REQUIRE(carried.find("measured") != nullptr);
  CHECK(carried.find("measured")->milliseconds == 0.1234567890123);
  CHECK(carried.find("long")->text == "another plan");
}

}  // namespace dtrain::cuda
