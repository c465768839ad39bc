// What a loader reads ahead.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "data/loading/loader.h"
#include "number_records.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

TEST_CASE("the data set hears of the records of an epoch in their order, before they are loaded", "[data]") {
  const auto numbers = std::make_shared<test::Numbers>(100);
  LoaderOptions options = test::training(100, 8);
  options.threads = 3;
  Loader loader(numbers, options, Log::silent());
  for (const int64_t first : {0, 5}) {
    numbers->announced.clear();
    std::vector<int64_t> read;
    loader.start(1, first);
    CHECK(numbers->announced_count() >= 8);
    while (const LoadedBatch* batch = must(loader.next())) {
      read.insert(read.end(), batch->records.begin(), batch->records.end());
      CHECK(numbers->announced_count() >= std::min<size_t>(read.size(), 100 - 8 * static_cast<size_t>(first)));
    }
    read.resize(100 - 8 * static_cast<size_t>(first));  // the last batch is filled up from the start of the order
    std::ranges::sort(read);
    std::ranges::sort(numbers->announced);
    CHECK(numbers->announced == read);
  }
}

TEST_CASE("a restart drops prefetched batches", "[data]") {
  LoaderOptions options = test::training(64, 4);
  options.threads = 4;
  Loader loader(std::make_shared<test::Numbers>(64), options, Log::silent());
  const auto expected = test::epoch_rows(loader, 1);
  for (int i = 0; i < 50; i++) {
    loader.start(0);
    for (int k = 0; k < i % 5; k++) must(loader.next());
    REQUIRE(test::epoch_rows(loader, 1) == expected);
  }
}

TEST_CASE("peeking shows the next batch and does not change the last one", "[data]") {
  const auto numbers = std::make_shared<test::Numbers>(12);
  Loader loader(numbers, test::training(12, 4), Log::silent());
  loader.start(0);
  const LoadedBatch* last = must(loader.next());
  std::set<uint64_t> serials = {last->serial};
  for (int batch = 1; batch < 3; batch++) {
    const std::vector<float> before(last->images().floats.begin(), last->images().floats.end());
    const LoadedBatch* seen = nullptr;
    dtrain::test::await([&] { return (seen = loader.peek()) != nullptr; });
    const uint64_t serial = seen->serial;
    const std::vector<float> data(seen->images().floats.begin(), seen->images().floats.end());
    CHECK(std::ranges::equal(before, last->images().floats));
    last = must(loader.next());
    CHECK(last == seen);
    CHECK(last->serial == serial);
    CHECK(std::ranges::equal(data, last->images().floats));
    CHECK(serials.insert(serial).second);
  }
  CHECK(loader.peek() == nullptr);  // the end of the epoch

  // The serial numbers distinguish a peeked batch from the one that came in its place.
  loader.start(1);
  must(loader.next());
  const LoadedBatch* seen = nullptr;
  dtrain::test::await([&] { return (seen = loader.peek()) != nullptr; });
  const uint64_t serial = seen->serial;
  loader.start(2);
  CHECK(must(loader.next())->serial != serial);
}

TEST_CASE("a loader ends at any time", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(64);
  LoaderOptions options = test::training(64, 4);
  options.threads = 4;
  for (int i = 0; i < 50; i++) {
    Loader loader(numbers, options, Log::silent());
    if (i % 4 > 0) loader.start(0);
    for (int k = 1; k < i % 4; k++) must(loader.next());
  }
}

TEST_CASE("no more batches are prefetched than requested", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(100);
  LoaderOptions options = test::training(100, 5);
  options.prefetch = 3;
  {
    Loader loader(numbers, options, Log::silent());
    loader.start(0);
    for (int i = 0; i < 4; i++) must(loader.next());
  }
  CHECK(numbers->loads <= 5 * (4 + 3));
}

TEST_CASE("decoder threads run only on the CPUs that the options name", "[data]") {
  // Notes the CPUs to which the threads that load its records are restricted.
  struct Watched : test::Numbers {
    using Numbers::Numbers;
    Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
      cpu_set_t set;
      CPU_ZERO(&set);
      sched_getaffinity(0, sizeof(set), &set);
      (CPU_COUNT(&set) == 1 && CPU_ISSET(only, &set) ? restricted : others)++;
      return Numbers::load(index, random, out, labels);
    }
    int only = 0;
    mutable std::atomic<int> restricted = 0, others = 0;
  };
  const auto watched = std::make_shared<Watched>(20);
  watched->only = sched_getcpu();
  LoaderOptions options = test::training(20, 4);
  options.threads = 2;
  options.cpus = {watched->only};
  Loader loader(watched, options, Log::silent());
  test::epoch_rows(loader, 0);
  CHECK(watched->restricted == 20);
  CHECK(watched->others == 0);
}

TEST_CASE("a loader says how many batches are ready", "[data]") {
  LoaderOptions options = test::training(15, 5);
  options.prefetch = 2;
  Loader loader(std::make_shared<test::Numbers>(15), options, Log::silent());
  CHECK(loader.ready_batches() == 0);
  loader.start(0);
  dtrain::test::await([&] { return loader.ready_batches() >= 2; });
  must(loader.next());
  dtrain::test::await([&] { return loader.ready_batches() >= 2; });  // the last two of the epoch
  must(loader.next());
  CHECK(loader.ready_batches() == 1);
  must(loader.next());
  CHECK(loader.ready_batches() == 0);
}
