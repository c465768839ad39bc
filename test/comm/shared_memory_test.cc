#include "comm/shared_memory.h"

#include <memory>
#include <thread>

#include "base/random.h"
#include "group.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::comm;
using namespace dtrain::comm::test;

TEST_CASE("every operation between the devices of a process agrees with a plain loop", "[comm]") {
  for (const uint32_t size : {1U, 2U, 3U, 4U, 8U}) check_lengths(make_shared_memory_group(size, {kLong}));
}

// Also checks that the order matters for these numbers; otherwise equal bits would show nothing.
TEST_CASE("devices are summed from left to right, with the same bits by every operation", "[comm]") {
  for (const uint32_t size : {2U, 3U, 4U, 8U}) {
    const Arrays arrays = random_numbers(size, 10007, size);
    check_operations(make_shared_memory_group(size, {kLong}), arrays, ordered_sum_of(arrays));
    const Arrays reversed(arrays.rbegin(), arrays.rend());
    CHECK((size == 2 || !same_bits(ordered_sum_of(reversed), ordered_sum_of(arrays))));
  }
}

TEST_CASE("many operations in a row do not disturb each other, in any order of arrival", "[comm]") {
  const auto sum_all = [](Collective& rank, std::vector<float>& values) { return rank.all_reduce(values); };
  for (uint64_t seed = 1; seed <= 10; seed++) {
    check_many_operations(make_shared_memory_group(static_cast<uint32_t>(2 + seed % 4), {kLong}), seed,
                          {.count = 200, .pause_max = 20, .elements_max = 200, .sum_all = sum_all});
  }
}

TEST_CASE("a device that waits in vain names the missing device and the operation", "[comm]") {
  std::vector<float> values(100);
  const Group two = make_shared_memory_group(2, {.wait_limit_s = 0.05});
  const Result<> waited = two[0]->all_reduce(values);
  REQUIRE(!waited);
  CHECK(waited.error().code == Code::kPeerLost);
  CHECK(waited.error().message == "device 1 has not reached all_reduce within 0.05 s");
  // Now it is too late.
  const Result<> late = two[1]->all_reduce(values);
  REQUIRE(!late);
  CHECK(late.error().message == waited.error().message);

  const Group four = make_shared_memory_group(4, {.wait_limit_s = 0.05});
  const Result<> alone = four[1]->broadcast(values, 0);
  REQUIRE(!alone);
  CHECK(alone.error().message == "devices 0, 2, 3 have not reached broadcast within 0.05 s");
}

// On a busy host ranks other than the missing one may also be late for such a short limit. All ranks get the same
// error.
TEST_CASE("all devices that wait for a missing one are told", "[comm]") {
  const Group group = make_shared_memory_group(4, {.wait_limit_s = 0.05});
  std::vector<float> values(100);
  const auto endings = on_ranks({0, 1, 3}, [&](uint32_t rank) { return group[rank]->all_reduce(values); });
  for (const Ending& ending : endings) {
    REQUIRE(!ending.result);
    CHECK(ending.result.error().code == Code::kPeerLost);
    CHECK_THAT(ending.result.error().message, Catch::Contains("2") && Catch::Contains("not reached all_reduce"));
    CHECK(ending.result.error().message == endings.front().result.error().message);
  }
}

TEST_CASE("no device waits for one whose endpoint is destroyed", "[comm]") {
  Group group = make_shared_memory_group(3, {kLong});
  std::vector<float> values(100);
  std::thread destroyer([end = std::move(group[1])]() mutable { end.reset(); });
  const auto waited = on_ranks({0, 2}, [&](uint32_t rank) { return group[rank]->reduce(values, 0); });
  destroyer.join();
  for (const Ending& ending : waited) {
    REQUIRE(!ending.result);
    CHECK(ending.result.error().code == Code::kPeerLost);
    CHECK(ending.result.error().message == "device 1 has left the group before reduce");
  }
}

// After the very last operation, the ends are destroyed at different times, and none takes another's result away.
TEST_CASE("an endpoint may be destroyed as soon as its last operation has finished", "[comm]") {
  for (int repeat = 0; repeat < 200; repeat++) {
    Group group = make_shared_memory_group(4, {kLong});
    const auto endings = on_all(4, [&](uint32_t rank) {
      std::vector<float> values(10);
      const Result<> result = group[rank]->all_reduce(values);
      group[rank].reset();
      return result;
    });
    for (const Ending& ending : endings) REQUIRE(ending.result.has_value());
  }
}

TEST_CASE("cancel releases all devices, and the first error counts", "[comm]") {
  const Group group = make_shared_memory_group(4, {kLong});
  std::vector<float> values(100);
  std::thread canceller([&] {
    group[3]->cancel({Code::kPreempted, "asked to stop", {}});
    group[0]->cancel({Code::kInternal, "too late", {}});
  });
  const auto endings = on_ranks({0, 1, 2}, [&](uint32_t rank) { return group[rank]->all_gather(values); });
  canceller.join();
  for (const Ending& ending : endings) {
    REQUIRE(!ending.result);
    CHECK(ending.result.error().code == Code::kPreempted);
    CHECK(ending.result.error().message == "asked to stop");
  }
  CHECK(group[3]->all_reduce(values).error().message == "asked to stop");
}

// Each array is freed when its operation returns. AddressSanitizer would catch a rank that still uses it, or the rank
// would write into the next array.
TEST_CASE("a canceled operation no longer uses any array when it returns", "[comm]") {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    INFO("seed " << seed);
    const Group group = make_shared_memory_group(3, {kLong});
    std::thread canceller([&] {
      RandomStream random(seed, Use::kTest);
      for (int64_t yields = random.below(40); yields > 0; yields--) std::this_thread::yield();
      group[0]->cancel({Code::kPreempted, "asked to stop", {}});
    });
    const auto endings = on_all(3, [&](uint32_t rank) {
      Result<> result;
      while (result) {
        const auto values = std::make_unique<std::vector<float>>(20000, 1.0F);
        result = group[rank]->all_reduce(*values);
      }
      return result;
    });
    canceller.join();
    for (const Ending& ending : endings) CHECK(ending.result.error().code == Code::kPreempted);
  }
}

// All ranks throw, including those that were right, instead of waiting.
TEST_CASE("devices that call different operations all throw", "[comm]") {
  std::vector<float> values(100);
  const auto check = [](const std::vector<Ending>& endings, const std::string& text) {
    for (const Ending& ending : endings) {
      REQUIRE(ending.has_thrown);
      CHECK_THAT(ending.result.error().message, Catch::Contains(text));
    }
  };
  Group group = make_shared_memory_group(3, {kLong});
  check(
      on_all(3, [&](uint32_t rank) { return group[rank]->all_reduce(std::span(values).first(rank == 1 ? 99 : 100)); }),
      "device 1 calls all_reduce of 99 elements, root 0, but device 0 of 3 calls all_reduce of 100 elements");
  CHECK_THROWS_AS(group[0]->all_reduce(values), CheckFailed);

  group = make_shared_memory_group(3, {kLong});
  check(on_all(3,
               [&](uint32_t rank) {
                 return rank == 2 ? group[rank]->all_gather(values) : group[rank]->all_reduce(values);
               }),
        "device 2 calls all_gather");

  group = make_shared_memory_group(3, {kLong});
  check(on_all(3, [&](uint32_t rank) { return group[rank]->reduce(values, rank == 0 ? 1 : 2); }), "root 1");

  group = make_shared_memory_group(3, {kLong});
  check(on_all(3, [&](uint32_t rank) { return group[rank]->broadcast(values, 3); }), "root 3");
}
