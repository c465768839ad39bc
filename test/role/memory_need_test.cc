#include "role/setup/memory_need.h"

#include "job/flags/flags.h"
#include "support/catch.h"

namespace dtrain::role {

using Catch::Matchers::Contains;

namespace {

job::Flags lenet(int64_t batch_size) {
  job::Flags flags;
  flags.job.network.network = "lenet";
  flags.job.network.num_classes = 10;
  flags.job.network.image_shape = {1, 28, 28};
  flags.job.batch_size = batch_size;
  return flags;
}

}  // namespace

TEST_CASE("a network that does not fit into memory is refused with the memory that it needs", "[role]") {
  const Result<Network> network = build_network(lenet(1).job);
  REQUIRE(network);
  const MemoryNeed need = memory_need(*network);
  CHECK(need.weights == 8 * 431080);
  // The image and the outputs of the two convolutions and the two fully connected layers.
  CHECK(need.activations == 4 * (28 * 28 + 20 * 24 * 24 + 50 * 8 * 8 + 500 + 10));
  CHECK(check_memory(lenet(1024), *network, 0x1p30));
  const Result<> refused = check_memory(lenet(1 << 20), *network, 0x1p30);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Contains("--batch-size 1048576 needs at least") &&
                                          Contains("only 1.0 GiB of memory can be used on this host"));
}

TEST_CASE("the workers of a host share its memory", "[role]") {
  const Result<Network> network = build_network(lenet(1).job);
  REQUIRE(network);
  const double one = memory_need(*network).bytes(1024);
  CHECK(check_memory(lenet(1024), *network, 3 * one, 3));
  const Result<> refused = check_memory(lenet(1024), *network, 3 * one - 1, 3);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message,
             Contains(" for the 3 workers of this host, but only ") && Contains("run fewer workers on the host"));
}

TEST_CASE("a memory need of 4 EiB is refused", "[role]") {
  job::Flags flags = lenet(1 << 20);
  flags.job.network.image_shape = {16384, 8192, 8192};
  flags.job.network.num_classes = 10'000'000;
  const Result<Network> network = build_network(flags.job);
  REQUIRE(network);
  CHECK_FALSE(check_memory(flags, *network, 0x1p50));
}

}  // namespace dtrain::role
