#include "role/setup/setup.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <random>

#include "base/file.h"
#include "data/image_dataset.h"
#include "data/make_images.h"
#include "data/synthetic.h"
#include "role/worker/stores.h"
#include "role/worker/training.h"
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

}  // namespace

// Each flag has a different value, so that swapped flags are noticed.
TEST_CASE("every flag of augmentation reaches its place", "[role]") {
  const data::Distortion none = distortion_of({});
  CHECK_FALSE((none.is_affine() || none.color.any() || none.changes_numbers() || none.random_resized_crop));
  job::AugmentFlags flags;
  flags.resize = 40;
  flags.inter_method = 4;
  flags.max_random_rotate_angle = 11;
  flags.rotate = 12;
  flags.rotate_list = {13, -14};
  flags.max_random_shear_ratio = 0.15;
  flags.min_random_scale = 0.16;
  flags.max_random_scale = 1.7;
  flags.max_random_aspect_ratio = 0.18;
  flags.min_img_size = 19;
  flags.max_img_size = 2000;
  flags.min_crop_size = 21;
  flags.max_crop_size = 22;
  flags.min_random_area = 0.23;
  flags.max_random_area = 0.24;
  flags.max_random_h = 25;
  flags.max_random_s = 26;
  flags.max_random_l = 27;
  flags.brightness = 0.28;
  flags.contrast = 0.29;
  flags.saturation = 0.3;
  flags.pca_noise = 0.31;
  flags.max_random_contrast = 0.32;
  flags.max_random_illumination = 33;
  const data::Distortion all = distortion_of(flags);
  CHECK(all.resize == 40);
  CHECK(all.interpolation == data::Interpolation::kLanczos4);
  CHECK((all.rotate_max == 11 && all.rotate == 12 && all.rotate_list == std::vector<int>{13, -14}));
  CHECK(all.shear_max == 0.15);
  CHECK((all.scale.min == 0.16 && all.scale.max == 1.7));
  CHECK((all.aspect.min == 1 - 0.18 && all.aspect.max == 1.18));
  CHECK((all.img_size_min == 19 && all.img_size_max == 2000));
  CHECK((all.crop_size_min == 21 && all.crop_size_max == 22));
  CHECK((all.area.min == 0.23 && all.area.max == 0.24));
  CHECK((all.color.h_max == 25 && all.color.s_max == 26 && all.color.l_max == 27));
  CHECK((all.color.brightness == 0.28 && all.color.contrast == 0.29 && all.color.saturation == 0.3));
  CHECK(all.color.pca_noise == 0.31);
  CHECK((all.random_contrast == 0.32 && all.random_illumination == 33));
}

// 13 records, 3 workers and batches of 4 give the shares [0,4) [4,9) [9,13) and 2 batches each.
TEST_CASE("shares are disjoint and complete, and all workers of BSP do the same number of batches", "[role]") {
  const PassPlan plan = *plan_passes(spec_of("dist_sync", 3, 4), 13, {});
  CHECK(plan.shares == std::vector<job::Interval>{{0, 4}, {4, 9}, {9, 13}});
  CHECK(plan.batches == std::vector<int64_t>{2, 2, 2});
}

// The largest share among the workers that wait for each other decides; if nobody waits, a worker's own share.
TEST_CASE("a worker's batches are those of the largest share that it waits for", "[role]") {
  CHECK(plan_passes(spec_of("dist_async", 3, 4), 13, {})->batches == std::vector<int64_t>{1, 2, 1});
  CHECK(plan_passes(spec_of("dist_ssync", 3, 4), 13, {})->batches == std::vector<int64_t>{1, 2, 1});
  job::JobSpec gsp = spec_of("dist_gsync", 4, 5);
  gsp.groups = {1, 0, 1, 0};
  const auto sharding = *data::parse_sharding_file("0 .1\n.1 .2\n.2 .6\n.6 1\n", {"data_sharding", 4, false});
  const PassPlan plan = *plan_passes(gsp, 100, sharding);
  CHECK(plan.shares == std::vector<job::Interval>{{0, 10}, {10, 20}, {20, 60}, {60, 100}});
  CHECK(plan.batches == std::vector<int64_t>{8, 8, 8, 8});
  gsp.groups = {0, 0, 1, 1};
  CHECK(plan_passes(gsp, 100, sharding)->batches == std::vector<int64_t>{2, 2, 8, 8});
  CHECK(plan_passes(spec_of("dist_sync", 4, 5), 100, sharding)->batches == std::vector<int64_t>{8, 8, 8, 8});
}

// Whatever the shares are, each worker goes through all its records, and members of a group do equally many batches.
TEST_CASE("every record comes at least once in a pass, and groups have equal batches", "[role]") {
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
    const Result<PassPlan> plan = plan_passes(spec, records, *sharding);
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
TEST_CASE("the documented jobs go round their records in as many batches as they fill", "[role]") {
  CHECK(plan_passes(spec_of("device", 1, 128), 50000, {})->batches == std::vector<int64_t>{391});
  CHECK(plan_passes(spec_of("dist_sync", 4, 128), 50000, {})->batches == std::vector<int64_t>(4, 98));
  CHECK(plan_passes(spec_of("dist_sync", 4, 128), 60000, {})->batches == std::vector<int64_t>(4, 118));
  job::JobSpec gsp = spec_of("dist_gsync", 12, 45);
  gsp.groups = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  CHECK(plan_passes(gsp, 50000, {})->batches == std::vector<int64_t>(12, 93));
}

TEST_CASE("--num-examples changes the length of a pass and no share", "[role]") {
  job::JobSpec spec = spec_of("device", 1, 128);
  spec.flags.augment.num_examples = 60000;
  const PassPlan plan = *plan_passes(spec, 50000, {});
  CHECK(plan.shares == std::vector<job::Interval>{{0, 50000}});
  CHECK(plan.batches == std::vector<int64_t>{469});
}

// The number of records and --num-examples can both be 10^12. Their product does not fit into 64 bits.
TEST_CASE("the largest numbers of records and examples give a plan without overflow", "[role]") {
  constexpr int64_t kMost = 1'000'000'000'000;
  job::JobSpec spec = spec_of("dist_sync", 3, 1);
  spec.flags.augment.num_examples = kMost;
  CHECK(plan_passes(spec, kMost, {})->batches == std::vector<int64_t>(3, 333'333'333'334));
  CHECK(plan_passes(spec, 7, {})->batches == std::vector<int64_t>(3, 428'571'428'572));  // ceil(3/7 of 10^12)
  spec.flags.augment.num_examples = 1;
  CHECK(plan_passes(spec, kMost, {})->batches == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("more records than there can be are refused", "[role]") {
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

TEST_CASE("a relative --data-dir stands once before the names of data sets", "[role]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("x.rec"), 3, 8, 8, 3, 2);
  test::write_record_file(dir.path("y.rec"), 2, 8, 8, 3, 2);
  const std::string relative = std::filesystem::relative(dir.path()).string();
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  for (const auto& [train, validation] :
       {std::pair("--train-dataset", "--val-dataset"), {"--data-train", "--data-val"}}) {
    INFO(train);
    const auto parsed = job::parse_flags(
        {"--data-dir", relative, train, "x.rec", validation, "y.rec", "--image-shape", "3,8,8", "--num-classes", "2"},
        none);
    REQUIRE(parsed);
    const auto sets = open_data(parsed->flags, 0, Log::silent());
    INFO((sets ? "" : sets.error().text()));
    REQUIRE(sets);
    CHECK(sets->train->size() == 3);
    CHECK(sets->validation->size() == 2);
  }
}

TEST_CASE("a worker without a record is refused by rank", "[role]") {
  const Result<PassPlan> plan = plan_passes(spec_of("dist_sync", 3, 4), 2, {});
  REQUIRE(!plan);
  CHECK(plan.error().code == Code::kUsage);
  CHECK_THAT(plan.error().message, Catch::Contains("worker 1 of 3") && Catch::Contains("2 training records"));
}

// The samples that all workers apply in one epoch, including those that fill the last batch.
TEST_CASE("the schedule's epoch is what all workers apply in one", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 3, 4);
  const Result<job::JobPlan> plan = complete_spec(13, 5, {}, spec);
  REQUIRE(plan);
  CHECK(plan->samples_per_epoch == 24);
  CHECK(update_rule(spec.flags, *plan).samples_per_epoch == 24);
  job::JobSpec asp = spec_of("dist_async", 3, 4);
  CHECK(complete_spec(13, 5, {}, asp)->samples_per_epoch == 16);
}

TEST_CASE("with --resplit-every shares go on to the next rank", "[role]") {
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
TEST_CASE("unequal shares of workers that wait for each other are named", "[role]") {
  job::JobSpec spec = spec_of("dist_gsync", 12, 45);
  spec.groups = {0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  const auto sharding = *data::parse_sharding_file(
      "0 0.05\n0.05 0.1\n0.1 0.15\n0.15 0.2\n0.2 0.25\n0.25 0.3\n0.3 0.4\n0.4 0.5\n0.5 0.6\n0.6 0.7\n0.7 0.85\n0.85 "
      "1\n",
      {"data_sharding", 12, false});
  REQUIRE(complete_spec(50000, 10000, sharding, spec));
  CHECK_THAT(unequal_shares(spec, job::plan_of(spec)),
             Catch::StartsWith("workers 6 (5000 records) and 10 (7500 records) wait") &&
                 Catch::Contains("descending order of IP strings"));
  spec.groups = {2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0};  // the order for which the file was made
  CHECK(unequal_shares(spec, job::plan_of(spec)).empty());
  spec.flags.scheme.kv_store = "dist_async";
  spec.groups.clear();
  CHECK(unequal_shares(spec, job::plan_of(spec)).empty());
  job::JobSpec equal = spec_of("dist_sync", 3, 4);
  REQUIRE(complete_spec(13, 0, {}, equal));
  CHECK(unequal_shares(equal, job::plan_of(equal)).empty());
}

TEST_CASE("a batch larger than a share and missing validation data are said, with what helps", "[role]") {
  job::JobSpec spec = spec_of("dist_sync", 3, 4);
  REQUIRE(complete_spec(40, 10, {}, spec));
  CHECK(data_hints(spec, job::plan_of(spec)).empty());
  REQUIRE(complete_spec(10, 0, {}, spec));
  const std::vector<std::string> hints = data_hints(spec, job::plan_of(spec));
  REQUIRE(hints.size() == 2);
  CHECK_THAT(hints[0], Catch::Contains("a batch of 4 is larger than the 3 records of worker 0") &&
                           Catch::Contains("--batch-size 3 fits"));
  CHECK_THAT(hints[1], Catch::Contains("no validation data") && Catch::Contains("--data-val"));
  spec.flags.augment.benchmark = true;
  CHECK(data_hints(spec, job::plan_of(spec)).size() == 1);
}

TEST_CASE("the files of groups and shares are read where the job needs them", "[role]") {
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

TEST_CASE("keys are the parameters, then the statistics", "[role]") {
  job::JobFlags flags;
  flags.network.network = "3conv";
  flags.network.num_classes = 10;
  flags.network.image_shape = {3, 28, 28};
  const Network network = *build_network(flags);
  const std::vector<uint64_t> sizes = key_sizes(network.shapes);
  REQUIRE(sizes.size() == 16 + 6);
  CHECK(sizes[0] == 32 * 3 * 5 * 5);
  CHECK(sizes[16] == 32);  // batchnorm0_moving_mean
}

TEST_CASE("a network that brings its initial values takes no other rule", "[role]") {
  job::JobFlags flags;
  flags.network.network = "resnet-zscore";
  flags.network.num_classes = 10;
  flags.network.image_shape = {3, 32, 32};
  CHECK(build_network(flags));
  flags.network.initializer = "xavier";
  const Result<Network> refused = build_network(flags);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("brings the initial values of 'level2_block1_proj_weight'"));
}

TEST_CASE("flags choose the width of cross and the stages of MXNet-G's resnet", "[role]") {
  job::JobFlags flags;
  flags.network.num_classes = 100;
  flags.network.image_shape = {3, 28, 28};
  flags.network.network = "cross";
  flags.network.widen_factor = 2;
  CHECK(build_network(flags)->shapes.parameter_elements() == 3545348);
  flags.network.network = "lenet";
  CHECK_THAT(build_network(flags).error().message, Catch::Contains("a fixed width"));
  flags.network.widen_factor = 1;
  flags.network.network = "resnet-20@mxnet-g";
  flags.network.image_shape = {3, 32, 32};
  flags.augment.data_type = "cifar10";
  CHECK(build_network(flags)->shapes.parameters.size() == 64);
}

// Only rank 0 writes checkpoints, so it must have the whole optimizer state when the store joins several workers.
TEST_CASE("nccl shares out the update in one process, and has it everywhere among several", "[role]") {
  const job::Store nccl = job::store_by_name("nccl");
  CHECK(update_place(nccl, 1) == kvstore::UpdateAt::kShards);
  CHECK(update_place(nccl, 2) == kvstore::UpdateAt::kReplicas);
}

// Every process draws the initial values for itself: the same seed gives the same values, another seed gives others.
TEST_CASE("initial values depend on the seed alone", "[role]") {
  job::JobFlags flags;
  const auto draw = [&](uint64_t seed) {
    flags.seed = seed;
    std::vector<float> weight(60), gamma(5);
    const ParameterView view{.parameters = {{"fc_weight", {5, 12}, weight, {}}, {"bn_gamma", {5}, gamma, {}}},
                             .statistics = {}};
    REQUIRE(initialize(flags, view));
    CHECK(gamma == std::vector<float>(5, 1.0F));
    return weight;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("roles of one host share its threads, and --threads wins", "[role]") {
  job::Flags flags;
  flags.launch.threads = 6;
  CHECK(plan_threads(flags).compute == 6);
  flags.data.data_threads = 5;
  CHECK(plan_threads(flags).decode == 5);
  flags.launch.threads = 0;
  flags.launch.role = job::Role::kWorker;
  flags.job.num_workers = flags.job.num_servers = 4096;
  CHECK(plan_threads(flags).compute == 1);
}

TEST_CASE("GPUs are given pixels where there are any, CPUs numbers", "[role]") {
  const data::SyntheticOptions drawn{.image = {1, 28, 28}};
  const auto numbers = data::synthetic(drawn);
  const auto pictures = data::augmented(nullptr, {.image = {1, 28, 28}, .mean = {0}, .std = {1}});
  job::Flags flags;
  CHECK(normalisation_of_batches(flags, *pictures) == nullptr);
  flags.device.gpus = {0, 1};
  CHECK(normalisation_of_batches(flags, *numbers) == nullptr);
  CHECK(normalisation_of_batches(flags, *pictures) == pictures->normalisation());
}

TEST_CASE("--tf32 is off unless asked for, and reaches the executors", "[role]") {
  job::Flags flags;
  CHECK_FALSE(executor_options(flags, exec::Options::Purpose::kTraining).tf32);
  flags.device.tf32 = true;
  CHECK(executor_options(flags, exec::Options::Purpose::kTraining).tf32);
}
