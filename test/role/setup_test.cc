#include "role/setup.h"

#include <catch2/catch.hpp>

#include "data/image_dataset.h"
#include "data/synthetic.h"
#include "role/stores.h"
#include "role/training.h"

using namespace dtrain;
using namespace dtrain::role;

namespace {

job::JobFlags flags_of(int64_t workers, int64_t batch_size) {
  job::JobFlags flags;
  flags.num_workers = workers;
  flags.batch_size = batch_size;
  return flags;
}

}  // namespace

// formats.md 3.8: N = 13, W = 3, B = 4 gives shares [0,4) [4,9) [9,13) and 2 batches.
TEST_CASE("shares are disjoint and complete, and all workers do the same number of batches", "[role]") {
  const EpochPlan plan = *plan_epoch(flags_of(3, 4), 13);
  CHECK(plan.shares == std::vector<job::Interval>{{0, 4}, {4, 9}, {9, 13}});
  CHECK(plan.batches == 2);
}

TEST_CASE("--num-examples changes the length of an epoch and no share", "[role]") {
  job::JobFlags flags = flags_of(1, 128);
  flags.augment.num_examples = 60000;
  const EpochPlan plan = *plan_epoch(flags, 50000);
  CHECK(plan.shares == std::vector<job::Interval>{{0, 50000}});
  CHECK(plan.batches == 469);
}

TEST_CASE("a worker without a record is refused by rank", "[role]") {
  const Result<EpochPlan> plan = plan_epoch(flags_of(3, 4), 2);
  REQUIRE(!plan);
  CHECK(plan.error().code == Code::kUsage);
  CHECK_THAT(plan.error().message, Catch::Contains("worker 1 of 3") && Catch::Contains("2 training records"));
}

// W * E * B: what all workers together apply, filled batches included.
TEST_CASE("the schedule's epoch is what all workers apply in one", "[role]") {
  job::JobSpec spec;
  spec.flags = flags_of(3, 4);
  spec.batches_per_epoch = 2;
  CHECK(samples_per_epoch(spec) == 24);
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

// One seed, one network: the values that every process draws for itself are equal, and another seed has others.
// Rank 0 alone writes checkpoints, so where the store joins several workers it must have the optimiser's whole state.
TEST_CASE("nccl shares out the update in one process, and has it everywhere among several", "[role]") {
  const job::Store nccl = job::store_by_name("nccl");
  CHECK(update_place(nccl, 1) == kvstore::UpdateAt::kShards);
  CHECK(update_place(nccl, 2) == kvstore::UpdateAt::kReplicas);
}

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
