// How plans are chosen by their measured times, and where they are kept. The times are planted, so no device is needed.
#include "cuda/dnn/planner.h"

#include <algorithm>
#include <set>

#include "cuda/dnn/networks.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::cuda {

namespace {

using Catch::Matchers::Contains;

ConvolutionPass pass_of(int64_t images, Pass pass = Pass::kForward) {
  return {{images, 64, 56, 56, {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false}},
          pass,
          Type::kFloat16};
}

// Takes the place of a device: the plans of a pass take these times, in the order in which they are measured. Plans
// beyond the list take 1000 s. A negative time means that the plan fails.
struct Planted {
  std::vector<double> seconds = {};
  double clock = 0, clock_per_plan = 0;  // each measurement lets the clock advance
  bool has_memory = true;
  std::vector<std::string> measured = {};  // tags of the plans, in the order of measurements
  int passes = 0;

  PlanTiming timing(double seconds_max = 60) {
    return {.prepare = [this](const ConvolutionPass&) -> Result<Measure> {
              passes++;
              if (!has_memory) return fail(Code::kDevice, "out of memory");
              return [this, i = size_t{0}](const Plan& plan) mutable -> Result<double> {
                measured.push_back(plan.tag());
                clock += clock_per_plan;
                const double time = i < seconds.size() ? seconds[i] : 1000;
                i++;
                if (time < 0) return fail(Code::kDevice, "the device refuses {}", plan.tag());
                return time;
              };
            },
            .seconds_max = seconds_max,
            .now = [this] { return clock; }};
  }
};

// The plan chosen for these times.
Plan chosen_for(Planted& planted, const ConvolutionPass& pass = pass_of(256), PlanFiles files = {}) {
  return test::must(Planner(h200(), {}, files, planted.timing()).plan(pass));
}

std::string first_choice(const ConvolutionPass& pass) {
  return test::must(Planner(h200(), {}).plan(pass)).tag();
}

// A Log whose lines can be read.
class ReadableLog {
 public:
  ReadableLog() { test::must(log.add_file(directory_.path("log"))); }
  [[nodiscard]] std::string text() const { return test::must(read_file(directory_.path("log"))); }
  [[nodiscard]] std::ptrdiff_t warnings() const {
    std::ptrdiff_t count = 0;
    const std::string all = text(), word = "warning: ";
    for (size_t at = all.find(word); at != std::string::npos; at = all.find(word, at + 1)) count++;
    return count;
  }
  Log log = Log::silent();

 private:
  test::TempDir directory_;
};

}  // namespace

TEST_CASE("the plan with the shortest measured time is chosen, wherever it is in cuDNN's list", "[cuda]") {
  Planted all;
  chosen_for(all);
  REQUIRE(all.measured.size() > 3);
  CHECK(all.measured.size() <= kPrecompiledMeasuredMax + kCompiledMeasuredMax);
  CHECK(std::set(all.measured.begin(), all.measured.end()).size() == all.measured.size());
  CHECK(all.measured.front() == first_choice(pass_of(256)));
  // Both lists of the heuristics have some of these.
  Planted both;
  ConvolutionPass filter = pass_of(256, Pass::kBackwardFilter);
  filter.type = Type::kFloat32;
  chosen_for(both, filter);
  CHECK(std::set(both.measured.begin(), both.measured.end()).size() == both.measured.size());
  for (size_t i = 0; i < all.measured.size(); i++) {
    Planted planted{.seconds = std::vector<double>(all.measured.size(), 0.002)};
    planted.seconds[i] = 0.001;
    const std::string tag = chosen_for(planted).tag();
    CHECK(tag == all.measured[i]);
    CHECK(planted.measured == all.measured);
  }
}

TEST_CASE("of plans that are equally fast within noise, cuDNN's first one is chosen", "[cuda]") {
  Planted close{.seconds = {0.00101, 0.00101, 0.001}}, far{.seconds = {0.00103, 0.00101, 0.001}};
  const std::string near_tag = chosen_for(close).tag(), far_tag = chosen_for(far).tag();
  CHECK(near_tag == close.measured[0]);
  CHECK(far_tag == far.measured[1]);
}

TEST_CASE("a plan that fails when it is measured is not chosen; if all fail, the error says so", "[cuda]") {
  Planted some{.seconds = {-1, -1, 0.002, 0.001, -1}};
  const std::string tag = chosen_for(some).tag();
  CHECK(tag == some.measured[3]);

  Planted none{.seconds = std::vector<double>(100, -1)};
  const Result<Plan> plan = Planner(h200(), {}, {}, none.timing()).plan(pass_of(256));
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == Code::kDevice);
  CHECK_THAT(plan.error().text(), Contains(fmt::format("{} failed when they were measured (the device refuses {})",
                                                       none.measured.size(), none.measured[0])) &&
                                      Contains("use another --dtype"));
}

TEST_CASE("when a graph's time for measurements is over, the other passes get cuDNN's first choice", "[cuda]") {
  Planted planted{.seconds = {4, 3, 2, 1}, .clock_per_plan = 10};
  const ReadableLog log;
  PlanCache cache, run;
  Planner planner(h200(), {}, {&cache, &run}, planted.timing(25), log.log);
  // The third measurement ends after the limit, so the fourth, which would be the fastest, is not made.
  const std::string tag = test::must(planner.plan(pass_of(256))).tag();
  REQUIRE(planted.measured.size() == 3);
  CHECK(tag == planted.measured[2]);
  for (const int64_t images : {128, 64}) {
    CHECK(test::must(planner.plan(pass_of(images))).tag() == first_choice(pass_of(images)));
  }
  CHECK(planted.measured.size() == 3);
  CHECK(log.warnings() == 1);
  CHECK_THAT(log.text(), Contains("has taken 25 s"));
  // The run keeps all plans. The user's cache lacks those that another start can measure.
  CHECK(cache.size() == 1);
  CHECK(run.size() == 3);

  planner.graph_done();
  CHECK_THAT(log.text(), Contains("measured cuDNN's engines for 1 convolution passes in 30.0 s"));
  test::must(planner.plan(pass_of(32)));
  CHECK(planted.measured.size() == 6);
}

TEST_CASE("the time limit does not end the search before one plan could be measured", "[cuda]") {
  Planted planted{.seconds = {-1, -1, 1}, .clock_per_plan = 100};
  const std::string tag = chosen_for(planted).tag();
  CHECK(planted.measured.size() == 3);
  CHECK(tag == planted.measured[2]);
}

TEST_CASE("without memory for the tensors of a measurement, cuDNN's first choice is used", "[cuda]") {
  Planted planted{.has_memory = false};
  const ReadableLog log;
  Planner planner(h200(), {}, {}, planted.timing(), log.log);
  for (const int64_t images : {256, 128}) {
    CHECK(test::must(planner.plan(pass_of(images))).tag() == first_choice(pass_of(images)));
  }
  CHECK(planted.passes == 2);
  CHECK(log.warnings() == 1);
  CHECK_THAT(log.text(), Contains("cannot measure") && Contains("out of memory"));
}

TEST_CASE("with the option deterministic, nothing is measured and the choice is cuDNN's first", "[cuda]") {
  Planted planted{.seconds = {2, 1}};
  PlanCache cache;
  const PlanOptions options{.deterministic = true};
  Planner planner(h200(), options, {&cache}, planted.timing());
  const ConvolutionPass pass = pass_of(256, Pass::kBackwardFilter);
  CHECK(test::must(planner.plan(pass)).tag() == test::must(Planner(h200(), options).plan(pass)).tag());
  CHECK(planted.passes == 0);
  CHECK(cache.size() == 1);  // the choice is final, so it is stored
}

// In float32, cuDNN lists engines that add in varying order.
TEST_CASE("without the option deterministic, engines that are not deterministic are measured, too", "[cuda]") {
  const Device device = h200();
  ConvolutionPass pass = pass_of(256, Pass::kBackwardFilter);
  pass.type = Type::kFloat32;
  const Descriptor graph = operations_of(pass).finish(device);
  const auto measured = [&](const PlanOptions& options) {
    std::set<std::string> tags;
    const Measure measure = [&](const Plan& plan) {
      tags.insert(plan.tag());
      return 1.0;
    };
    test::must(choose_fastest_plan(device, graph, CUDNN_DATA_FLOAT, options, measure, [] { return false; }));
    return tags;
  };
  const std::set<std::string> any = measured({}), deterministic = measured({.deterministic = true});
  CHECK_FALSE(std::ranges::includes(deterministic, any));
}

TEST_CASE("a stored plan is not measured again, and its time is stored", "[cuda]") {
  const test::TempDir directory;
  const std::string path = directory.path("plans.json");
  Planted first{.seconds = {0.003, 0.00125}}, second;
  PlanCache cache = PlanCache::open(path, Log::silent());
  const std::string tag = chosen_for(first, pass_of(256), {&cache}).tag();
  test::must(cache.save());
  CHECK_THAT(test::must(read_file(path)), Contains("1.25") && Contains("dtrain cuDNN plans 2"));

  PlanCache read = PlanCache::open(path, Log::silent());
  CHECK(chosen_for(second, pass_of(256), {&read}).tag() == tag);
  CHECK(second.passes == 0);
}

TEST_CASE("a file with another version of the format is ignored with a warning that says so", "[cuda]") {
  const test::TempDir directory;
  const std::string path = directory.path("plans.json");
  const ReadableLog log;
  test::must(write_file_atomic(path, R"({"format": "dtrain cuDNN plans 1", "plans": {"key": ["00000000", "plan"]}})"));
  CHECK(PlanCache::open(path, log.log).size() == 0);
  CHECK(log.warnings() == 1);
  CHECK_THAT(log.text(), Contains(path) && Contains("another version of dtrain has written this file"));
}

TEST_CASE("the plans of the run directory win over those of the user's cache, and get every plan in use", "[cuda]") {
  Planted one{.seconds = {1, 2}}, other{.seconds = {2, 1}}, third;
  PlanCache cache, run;
  const std::string of_cache = chosen_for(one, pass_of(256), {&cache}).tag();
  const std::string of_run = chosen_for(other, pass_of(256), {.run = &run}).tag();
  chosen_for(one, pass_of(128), {&cache});
  REQUIRE(of_cache != of_run);
  REQUIRE(run.size() == 1);

  Planner planner(h200(), {}, {&cache, &run}, third.timing());
  CHECK(test::must(planner.plan(pass_of(256))).tag() == of_run);
  test::must(planner.plan(pass_of(128)));  // from the user's cache
  CHECK(third.passes == 0);
  CHECK(planner.from_cache() == 2);
  CHECK(run.size() == 2);
}

TEST_CASE("a resumed run that needs other plans than it had warns once that bits may differ", "[cuda]") {
  PlanCache run;
  const ReadableLog log;
  test::must(Planner(h200(), {}, {.run = &run}, {}, log.log).plan(pass_of(256)));
  Planner planner(h200(), {}, {.run = &run, .is_resumed = true}, {}, log.log);
  test::must(planner.plan(pass_of(256)));
  CHECK(log.warnings() == 0);
  for (const int64_t images : {128, 64}) test::must(planner.plan(pass_of(images)));
  CHECK(log.warnings() == 1);
  CHECK_THAT(log.text(), Contains("has no plan for forward float16 128x64x56x56") && Contains("last bits"));
}

TEST_CASE("a resumed run in another directory begins with the plans of the earlier one", "[cuda]") {
  const test::TempDir directory;
  const std::string earlier = directory.path("earlier.json"), path = directory.path("now.json");
  const Log log = Log::silent();
  PlanCache cache = PlanCache::open(earlier, log);
  cache.put("key", {"plan", 0.5});
  test::must(cache.save());

  CHECK(PlanCache::open_of_run(path, "", log).size() == 0);
  PlanCache resumed = PlanCache::open_of_run(path, earlier, log);
  CHECK(resumed.size() == 1);
  test::must(resumed.save());
  CHECK(test::must(read_file(path)) == test::must(read_file(earlier)));

  PlanCache again = PlanCache::open(path, log);
  again.put("new", {"plan"});
  test::must(again.save());
  CHECK(PlanCache::open_of_run(path, earlier, log).size() == 2);
}

}  // namespace dtrain::cuda
