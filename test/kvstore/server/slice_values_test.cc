#include "kvstore/server/slice_values.h"

#include <limits>

#include "kvstore/conversation.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

// The values of a slice of four elements, and the calls that a server makes for a message.
struct FourValues {
  explicit FourValues(const ShardOptions& shard_options)
      : options(shard_options), values(options, options.placement[0], 0) {}
  void add(uint32_t group, uint32_t rank, float value) {
    const std::vector<float> gradient(4, value);
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(gradient))};
    values.add(group, rank, 1, pieces);
  }
  float weight() {
    values.keep(0);
    const float weight = values.kept(0).values.values[0];
    values.release(0);
    return weight;
  }
  ShardOptions options;
  SliceValues values;
};

}  // namespace

// In ASP and SSP, each worker is a group. With a buffer for each, a server of 64 workers held 64 times the model.
TEST_CASE("a slice has one buffer for the gradients of rounds that follow each other", "[kvstore]") {
  ShardOptions options = options_for(sync::asp(64));
  options.deterministic = GENERATE(false, true);
  FourValues slice(options);
  slice.values.begin_rounds(64);
  CHECK(slice.values.gradient_buffers() == 0);
  for (uint32_t worker = 0; worker < 64; worker++) {
    slice.add(worker, worker, 1);
    REQUIRE(slice.values.update(worker, 1) == SliceValues::Outcome::kApplied);
    CHECK(slice.weight() == static_cast<float>(worker + 1));  // w <- w + mean of the round
    CHECK(slice.values.gradient_buffers() == 1);
  }
}

TEST_CASE("a slice has a buffer for each open round, which later rounds use again", "[kvstore]") {
  ShardOptions options = options_for(sync::gsp({0, 0, 1, 1, 2, 2}));
  const bool by_rank = GENERATE(false, true);
  options.deterministic = by_rank;
  FourValues slice(options);
  slice.values.begin_rounds(3);
  float expected = 0;
  for (int round = 0; round < 3; round++) {
    for (uint32_t member = 0; member < 2; member++) {
      for (uint32_t group = 0; group < 3; group++)
        slice.add(group, 2 * group + member, static_cast<float>(group + member));
    }
    CHECK(slice.values.gradient_buffers() == (by_rank ? 6 : 3));
    for (uint32_t group = 0; group < 3; group++) {
      REQUIRE(slice.values.update(group, 1) == SliceValues::Outcome::kApplied);
      expected += static_cast<float>(group) + 0.5f;
      CHECK(slice.weight() == expected);
    }
  }
  slice.add(0, 0, 1);
  slice.values.begin_rounds(1);  // the sum of the open round is discarded, and so are the other groups' buffers
  CHECK(slice.values.gradient_buffers() == 0);
  slice.add(0, 0, 1);
  CHECK(slice.values.update(0, 1) == SliceValues::Outcome::kApplied);
  CHECK(slice.weight() == expected + 1);
  CHECK(slice.values.gradient_buffers() == 1);
}

TEST_CASE("a round that changes nothing gives its buffer back", "[kvstore]") {
  FourValues slice(options_for(sync::asp(2)));
  slice.values.begin_rounds(2);
  const float infinite = std::numeric_limits<float>::infinity();
  slice.add(0, 0, infinite);
  CHECK(slice.values.update(0, 1) == SliceValues::Outcome::kRefused);
  slice.add(1, 1, 2);  // in the buffer that had infinite values
  CHECK(slice.values.update(1, 1) == SliceValues::Outcome::kApplied);
  CHECK(slice.weight() == 2);
  CHECK(slice.values.gradient_buffers() == 1);
}
