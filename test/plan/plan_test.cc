#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/records/sharding_file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::plan;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

std::vector<job::WorkerPlace> places(const std::vector<std::string>& hosts) {
  std::vector<job::WorkerPlace> all;
  for (const std::string& host : hosts) all.push_back({host, ""});
  return all;
}

// Eight workers of three speeds.
PlannedJob example() {
  return {.speeds = {100, 102, 98, 60, 61, 59, 30, 31},
          .speeds_from = "of a test",
          .places = places(std::vector<std::string>(8, "here")),
          .records = 50000,
          .batch_size = 50,
          .servers = 2,
          .bytes = 1000};
}

}  // namespace

TEST_CASE("the written shares have the borders of the speeds, to the record", "[plan][plan]") {
  const Plan plan = must(make_plan(example(), {}));
  const std::vector<data::Fraction> fractions =
      must(data::parse_sharding_file(plan.sharding_text(), {.name = "data_sharding", .workers = 8}));
  std::vector<int64_t> borders;
  for (const data::Share& share : data::shares_of(fractions, 50000)) borders.push_back(share.end);
  CHECK(borders == std::vector<int64_t>{9228, 18456, 27684, 33239, 38795, 44350, 47175, 50000});
  PlannedJob few = example();
  few.records = 3;
  const auto refused = make_plan(few, {});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text(), Contains("would get none of the 3 training records"));
}

TEST_CASE("a plan prints the gain that the simulator predicts", "[plan][plan]") {
  PlannedJob job = example();
  job.speeds = {300, 300, 300, 100};
  job.places = places({"a", "b", "c", "d"});
  const Plan plan = must(make_plan(job, {}));
  const double gain = plan.epoch_s("bsp") / plan.epoch_s("gsp");
  CHECK(gain == Approx(2.5).epsilon(0.06));  // 3 1/3 fast workers instead of 4 slow ones
  // An epoch has 250 steps of 500 ms; 200 of them are simulated.
  CHECK(plan.epoch_s("bsp") == Approx(125).epsilon(0.05));
  CHECK(plan.expectation() ==
        fmt::format("expected: GSP is {:.2f} times as fast as BSP (simulated: {:.2f} s per epoch instead of {:.2f} s)",
                    gain, plan.epoch_s("gsp"), plan.epoch_s("bsp")));
  CHECK(plan.groups_text() == "a b c\nd\n");
  const std::string text = plan.text();
  CHECK_THAT(text,
             Contains("speeds of a test\n") && Contains("group 0: workers 0 1 2; the slowest trains 300.00 samples/s"));
  CHECK_THAT(text, Contains("ssp lead 0") && Contains("asp") && Contains(plan.expectation()));
  const auto json = nlohmann::json::parse(plan.json());
  CHECK(json["group_of"] == nlohmann::json({0, 0, 0, 1}));
  CHECK(json["partitions"][1]["groups"] == 2);
  CHECK(json["gain"].get<double>() == Approx(gain));

  job.speeds = {100, 101, 99, 100};
  const Plan equal = must(make_plan(job, {}));
  CHECK(equal.groups_text() == "a b c d\n");
  CHECK(equal.sharding_text() == "0 0.25\n0.25 0.5\n0.5 0.75\n0.75 1\n");
  CHECK_THAT(equal.expectation(), Contains("so use BSP (dist_sync)"));
}

TEST_CASE("a plan's files replace only earlier files of a plan", "[plan][plan]") {
  const TempDir dir;
  const PlanFiles files{dir.path("groups"), dir.path("data_sharding")};
  const Plan plan = must(make_plan(example(), {}));
  CHECK_THAT(must(write_plan_files(plan, files)),
             Contains("groups: written\n") && Contains("data_sharding: written\n"));
  CHECK_THAT(must(write_plan_files(plan, files)), Contains("groups: unchanged, because it already has this content"));
  must(write_file_atomic(files.groups, "10.10.10.22 10.10.10.23\n[fe80::1]:1 #4\n"));
  must(write_file_atomic(files.sharding, "0 0.3\n0.3 1\n"));
  CHECK_THAT(must(write_plan_files(plan, files)), Contains("data_sharding: replaced"));
  CHECK(must(read_file(files.groups)) == plan.groups_text());
  for (const std::string& path : {files.groups, files.sharding}) {
    must(write_file_atomic(path, "# Notes, not to be lost\n"));
    const auto refused = write_plan_files(plan, files);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().text(), Contains(path + " exists but is a different kind of file"));
    CHECK(must(read_file(path)) == "# Notes, not to be lost\n");
    must(write_file_atomic(path, ""));
  }
  CHECK_FALSE(check_plan_files({dir.path(), files.sharding}));
}
