#include "role/setup/shares.h"

#include <limits>
#include <random>

#include "base/file.h"
#include "role/setup/update.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::role;

namespace {

job::JobSpec spec_of(const char* store, int64_t workers, int64_t batch_size) {
  job::JobSpec spec;
  spec.flags.scheme.kv_store = store;
  spec.flags.num_workers = workers;
  spec.flags.batch_size = batch_size;
  return spec;
}

Result<PassPlan> passes_of(const job::JobSpec& spec, int64_t records, const std::vector<data::Fraction>& sharding) {
  return plan_passes(spec, job::plan_of(spec), records, sharding);
}

}  // namespace

// 13 records, 3 workers and batches of 4 give the shares [0,4) [4,9) [9,13) and 2 batches each.
TEST_CASE("shares are disjoint and complete, and all BSP workers process the same number of batches", "[role]") {
  const PassPlan plan = *passes_of(spec_of("dist_sync", 3, 4), 13, {});
  CHECK(plan.shares == std::vector<job::Interval>{{0, 4}, {4, 9}, {9, 13}});
  CHECK(plan.batches == std::vector<int64_t>{2, 2, 2});
}

// The largest share among the workers that wait for each other decides; if nobody waits, a worker's own share.
TEST_CASE("a worker's number of batches follows from the largest share that it waits for", "[role]") {
  CHECK(passes_of(spec_of("dist_async", 3, 4), 13, {})->batches == std::vector<int64_t>{1, 2, 1});
  CHECK(passes_of(spec_of("dist_ssync", 3, 4), 13, {})->batches == std::vector<int64_t>{1, 2, 1});
  job::JobSpec gsp = spec_of("dist_gsync", 4, 5);
  gsp.groups = {1, 0, 1, 0};
  const auto sharding = *data::parse_sharding_file("0 .1\n.1 .2\n.2 .6\n.6 1\n", {"data_sharding", 4, false});
  const PassPlan plan = *passes_of(gsp, 100, sharding);
  CHECK(plan.shares == std::vector<job::Interval>{{0, 10}, {10, 20}, {20, 60}, {60, 100}});
  CHECK(plan.batches == std::vector<int64_t>{8, 8, 8, 8});
  gsp.groups = {0, 0, 1, 1};
  CHECK(passes_of(gsp, 100, sharding)->batches == std::vector<int64_t>{2, 2, 8, 8});
  CHECK(passes_of(spec_of("dist_sync", 4, 5), 100, sharding)->batches == std::vector<int64_t>{8, 8, 8, 8});
}

// Whatever the shares are, each worker goes through all its records, and members of a group do equally many batches.
TEST_CASE("every record occurs in a pass, and the members of a group have equally many batches", "[role]") {
  std::mt19937_64 random(3);
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int64_t workers = 1; workers <= 200; workers += 7) {
    INFO("workers " << workers);
    job::JobSpec spec = spec_of("dist_gsync", workers, draw(1, 64));
    std::vector<double> speeds;
    for (int64_t i = 0; i < workers; i++) {
      speeds.push_back(static_cast<double>(draw(1, 20)));
      spec.groups.push_back(draw(0, 4));
    }
    const int64_t records = 20000 + draw(0, 1000);
    const std::vector<data::Share> shares = data::shares_by_speed(records, speeds);
    std::string file;
    for (const data::Share& share : shares) {
      const auto part = [&](int64_t border) { return static_cast<double>(border) / static_cast<double>(records); };
      file += fmt::format("{} {}\n", part(share.begin), part(share.end));
    }
    const auto sharding = data::parse_sharding_file(file, {"data_sharding", workers, false});
    REQUIRE(sharding);
    const Result<PassPlan> plan = passes_of(spec, records, *sharding);
    REQUIRE(plan);
    int64_t next = 0;
    for (size_t rank = 0; rank < plan->shares.size(); rank++) {
      REQUIRE(plan->shares[rank] == job::Interval{shares[rank].begin, shares[rank].end});
      REQUIRE(plan->shares[rank].begin == next);
      next = plan->shares[rank].end;
      REQUIRE(plan->batches[rank] * spec.flags.batch_size >= shares[rank].size());
      for (size_t other = 0; other < rank; other++) {
        if (spec.groups[other] == spec.groups[rank]) REQUIRE(plan->batches[other] == plan->batches[rank]);
      }
    }
    REQUIRE(next == records);
  }
}

// 391 and 98 are also MXNet 1.x's numbers. MXNet 0.7 has 468 and 117 and MXNet-G has 92: they leave records out.
TEST_CASE("a pass of the documented jobs has as many batches as their records fill", "[role]") {
  CHECK(passes_of(spec_of("device", 1, 128), 50000, {})->batches == std::vector<int64_t>{391});
  CHECK(passes_of(spec_of("dist_sync", 4, 128), 50000, {})->batches == std::vector<int64_t>(4, 98));
  CHECK(passes_of(spec_of("dist_sync", 4, 128), 60000, {})->batches == std::vector<int64_t>(4, 118));
  job::JobSpec gsp = spec_of("dist_gsync", 12, 45);
  gsp.groups = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  CHECK(passes_of(gsp, 50000, {})->batches == std::vector<int64_t>(12, 93));
}

TEST_CASE("the option --num-examples changes the length of a pass but no share", "[role]") {
  job::JobSpec spec = spec_of("device", 1, 128);
  spec.flags.augment.num_examples = 60000;
  const PassPlan plan = *passes_of(spec, 50000, {});
  CHECK(plan.shares == std::vector<job::Interval>{{0, 50000}});
  CHECK(plan.batches == std::vector<int64_t>{469});
}

// The number of records and --num-examples can both be 10^12. Their product does not fit into 64 bits.
// 100 examples are 3 whole batches of 32; the synthetic data set has been made with 96 records.
TEST_CASE("a pass over synthetic data has whole batches", "[role]") {
  job::JobSpec spec = spec_of("local", 1, 32);
  spec.flags.augment.num_examples = 100;
  CHECK(passes_of(spec, 96, {})->batches == std::vector<int64_t>{4});
  spec.flags.augment.benchmark = true;
  CHECK(passes_of(spec, 96, {})->batches == std::vector<int64_t>{3});
}

TEST_CASE("the largest numbers of records and examples give a plan without overflow", "[role]") {
  constexpr int64_t kMost = 1'000'000'000'000;
  job::JobSpec spec = spec_of("dist_sync", 3, 1);
  spec.flags.augment.num_examples = kMost;
  CHECK(passes_of(spec, kMost, {})->batches == std::vector<int64_t>(3, 333'333'333'334));
  CHECK(passes_of(spec, 7, {})->batches == std::vector<int64_t>(3, 428'571'428'572));  // ceil(3/7 of 10^12)
  spec.flags.augment.num_examples = 1;
  CHECK(passes_of(spec, kMost, {})->batches == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("impossible numbers of records are refused", "[role]") {
  for (const int64_t records : {int64_t{1'000'000'000'001}, std::numeric_limits<int64_t>::max(), int64_t{-1},
                                std::numeric_limits<int64_t>::min()}) {
    INFO(records);
    job::JobSpec spec = spec_of("dist_sync", 3, 4);
    spec.flags.augment.num_examples = 1000;
    const Result<job::JobPlan> training = complete_spec(records, 0, {}, spec);
    REQUIRE(!training);
    CHECK_THAT(training.error().message, Catch::Contains("training records") && Catch::Contains("1000000000000"));
    const Result<job::JobPlan> validation = complete_spec(13, records, {}, spec);
    REQUIRE(!validation);
    CHECK_THAT(validation.error().message, Catch::Contains("validation records"));
  }
}

TEST_CASE("a worker without records is refused by rank", "[role]") {
  const Result<PassPlan> plan = passes_of(spec_of("dist_sync", 3, 4), 2, {});
  REQUIRE(!plan);
  CHECK(plan.error().code == Code::kUsage);
  CHECK_THAT(plan.error().message, Catch::Contains("worker 1 of 3") && Catch::Contains("2 training records"));
}

// The samples that all workers apply in one epoch, including those that fill the last batch.
TEST_CASE("the schedule's epoch has the samples that all workers apply in an epoch", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 3, 4);
  const Result<job::JobPlan> plan = complete_spec(13, 5, {}, spec);
  REQUIRE(plan);
  CHECK(plan->samples_per_epoch == 24);
  CHECK(update_rule(spec.flags, *plan).samples_per_epoch == 24);
  job::JobSpec asp = spec_of("dist_async", 3, 4);
  CHECK(complete_spec(13, 5, {}, asp)->samples_per_epoch == 16);
}

TEST_CASE("shares move to the next rank with --resplit-every", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 4, 5);
  REQUIRE(complete_spec(400, 0, {}, spec));
  CHECK(share_of(spec, 1, 7) == data::Share{100, 200});
  spec.flags.scheme.resplit_every = 2;
  CHECK(share_of(spec, 1, 1) == data::Share{100, 200});
  CHECK(share_of(spec, 1, 2) == data::Share{0, 100});
  CHECK(share_of(spec, 1, 5) == data::Share{300, 400});
  CHECK(share_of(spec, 1, 8) == data::Share{100, 200});
}

// MXNet-G's files groups and data_sharding are in different orders, so workers of one group get unequal shares.
TEST_CASE("a hint names unequal shares of workers that wait for each other", "[role]") {
  job::JobSpec spec = spec_of("dist_gsync", 12, 45);
  spec.groups = {0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  const auto sharding = *data::parse_sharding_file(
      "0 0.05\n0.05 0.1\n0.1 0.15\n0.15 0.2\n0.2 0.25\n0.25 0.3\n0.3 0.4\n0.4 0.5\n0.5 0.6\n0.6 0.7\n0.7 0.85\n0.85 "
      "1\n",
      {"data_sharding", 12, false});
  REQUIRE(complete_spec(50000, 10000, sharding, spec));
  CHECK_THAT(unequal_shares(spec, job::plan_of(spec)),
             Catch::StartsWith("workers 6 (5000 records) and 10 (7500 records) wait") &&
                 Catch::Contains("descending order of the workers' IP addresses"));
  spec.groups = {2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0};  // the order for which the file was made
  CHECK(unequal_shares(spec, job::plan_of(spec)).empty());
  spec.flags.scheme.kv_store = "dist_async";
  spec.groups.clear();
  CHECK(unequal_shares(spec, job::plan_of(spec)).empty());
  job::JobSpec equal = spec_of("dist_sync", 3, 4);
  REQUIRE(complete_spec(13, 0, {}, equal));
  CHECK(unequal_shares(equal, job::plan_of(equal)).empty());
}

TEST_CASE("hints for large batches and missing validation data name a remedy", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 3, 4);
  REQUIRE(complete_spec(40, 10, {}, spec));
  CHECK(data_hints(spec, job::plan_of(spec)).empty());
  REQUIRE(complete_spec(10, 0, {}, spec));
  const std::vector<std::string> hints = data_hints(spec, job::plan_of(spec));
  REQUIRE(hints.size() == 2);
  CHECK_THAT(hints[0], Catch::Contains("the batch size 4 is larger than the 3 records of worker 0") &&
                           Catch::Contains("--batch-size 3 fits"));
  CHECK_THAT(hints[1], Catch::Contains("no validation data") && Catch::Contains("--data-val"));
  spec.flags.augment.benchmark = true;
  CHECK(data_hints(spec, job::plan_of(spec)).size() == 1);
}

TEST_CASE("files of groups and shares are read if the job needs them", "[role]") {
  const test::TempDir dir;
  job::Flags flags;
  flags.job = spec_of("dist_gsync", 2, 4).flags;
  flags.launch.groups_file = dir.path("groups");
  flags.launch.data_sharding_file = dir.path("data_sharding");
  const auto none = read_groups(flags);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::kUsage);
  CHECK_THAT(none.error().message, Catch::Contains(dir.path("groups")) && Catch::Contains("--ungrouped own"));
  flags.job.scheme.ungrouped = job::Ungrouped::kOwn;
  CHECK((*read_groups(flags))->text.empty());
  flags.sources["groups-file"] = job::Source::kCommandLine;
  CHECK_FALSE(read_groups(flags));
  REQUIRE(write_file_atomic(dir.path("groups"), "#0 #1\n"));
  CHECK((*read_groups(flags))->text == "#0 #1\n");
  flags.job.scheme.kv_store = "dist_sync";
  CHECK_FALSE(*read_groups(flags));

  CHECK(read_sharding(flags)->empty());
  flags.job.scheme.data_allocator = true;
  CHECK(read_sharding(flags).error().code == Code::kUsage);
  REQUIRE(write_file_atomic(dir.path("data_sharding"), "0 0.3\n0.3 1\n"));
  CHECK(read_sharding(flags)->size() == 2);
  flags.job.num_workers = 3;
  CHECK_THAT(read_sharding(flags).error().message, Catch::Contains("2 lines for 3 workers"));
}

TEST_CASE("the workers that are left divide all records, in the proportions of a file if there is one", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 4, 5);
  REQUIRE(complete_spec(100, 0, {}, spec));
  job::JobSpec now = *spec_of_live(spec, {1, 2, 3});
  CHECK(now.flags.num_workers == 3);
  CHECK(now.shares == std::vector<job::Interval>{{0, 33}, {33, 67}, {67, 100}});
  CHECK(now.batches == std::vector<int64_t>{7, 7, 7});
  CHECK(now.is_complete());

  job::JobSpec gsp = spec_of("dist_gsync", 4, 5);
  gsp.groups = {0, 1, 1, 2};
  gsp.flags.scheme.data_allocator = true;
  const auto sharding = *data::parse_sharding_file("0 .1\n.1 .2\n.2 .6\n.6 1\n", {"data_sharding", 4, false});
  REQUIRE(complete_spec(100, 0, sharding, gsp));
  now = *spec_of_live(gsp, {1, 3});
  CHECK(now.groups == std::vector<int64_t>{0, 1});
  CHECK(now.shares == std::vector<job::Interval>{{0, 20}, {20, 100}});
  CHECK(now.batches == std::vector<int64_t>{4, 16});

  spec.flags.scheme.backup = 2;
  CHECK(spec_of_live(spec, {0, 3})->flags.scheme.backup == 1);
}
