#include "data/loading/loader.h"

#include <map>
#include <memory>
#include <set>

#include "number_records.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

// 10 records, batches of 4.
TEST_CASE("an epoch has every record once and fills its last batch from its own beginning", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(10);
  Loader loader(numbers, test::training(10, 4), Log::silent());
  CHECK(loader.batches() == 3);
  std::vector<std::vector<test::Row>> epochs;
  for (int64_t epoch = 0; epoch < 3; epoch++) {
    epochs.push_back(test::epoch_rows(loader, epoch));
    const auto& rows = epochs.back();
    REQUIRE(rows.size() == 12);
    CHECK(test::count_records({rows.begin(), rows.begin() + 10}).size() == 10);
    CHECK(rows[10] == rows[0]);
    CHECK(rows[11] == rows[1]);
    for (const test::Row& row : rows) CHECK(row.label == row.record);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(test::epoch_rows(loader, 0) == epochs[0]);  // an epoch's order and draws depend on (seed, epoch) alone
}

TEST_CASE("batches do not depend on the number of threads or on how many are prefetched", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(101);
  numbers->broken = {3, 50, 51, 99};
  for (const auto mode : {LoaderOptions::Mode::kTraining, LoaderOptions::Mode::kValidation}) {
    LoaderOptions options = test::training(101, 16);
    options.mode = mode;
    std::vector<test::Row> expected;
    for (const int threads : {1, 4, 16}) {
      for (const int64_t prefetch : {1, 4, 9}) {
        options.threads = threads;
        options.prefetch = prefetch;
        Loader loader(numbers, options, Log::silent());
        const auto rows = test::epoch_rows(loader, 3);
        if (expected.empty()) expected = rows;
        CHECK(rows == expected);
      }
    }
  }
}

TEST_CASE("batches do not depend on threads that come and go", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(301);
  numbers->broken = {3, 50, 51, 99};
  LoaderOptions options = test::training(301, 8);
  Loader one(numbers, options, Log::silent());
  const std::vector<test::Row> expected = test::epoch_rows(one, 3);
  options.threads = 2;
  options.threads_max = 7;
  Loader loader(numbers, options, Log::silent());
  RandomStream random(1, Use::kTest);
  std::vector<test::Row> rows;
  loader.start(3);
  while (const LoadedBatch* batch = must(loader.next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); i++) rows.push_back(test::row_of(*batch, i));
    loader.set_threads(1 + static_cast<int>(random.below(7)));
  }
  CHECK(rows == expected);
  CHECK_THROWS_AS(loader.set_threads(0), CheckFailed);
  CHECK_THROWS_AS(loader.set_threads(8), CheckFailed);
}

// They are not those that augmentation draws, and neither the share nor the place in the epoch matters.
TEST_CASE("a record's key depends on the epoch and the record", "[data]") {
  const auto numbers = std::make_shared<test::Numbers>(20);
  const auto keys_of = [&](LoaderOptions options, int64_t epoch) {
    std::map<float, uint64_t> keys;
    Loader loader(numbers, options, Log::silent());
    for (const test::Row& row : test::epoch_rows(loader, epoch)) {
      if (keys.contains(row.record)) CHECK(keys[row.record] == row.key);
      keys[row.record] = row.key;
    }
    return keys;
  };
  const std::map<float, uint64_t> all = keys_of(test::training(20, 8), 1), next = keys_of(test::training(20, 8), 2);
  std::set<uint64_t> different;
  for (const auto& keys : {all, next}) {
    for (const auto& [record, key] : keys) different.insert(key);
  }
  CHECK(different.size() == 40);
  LoaderOptions second_half = test::training(20, 5);
  second_half.share = {10, 20};
  second_half.shuffle = false;
  for (const auto& [record, key] : keys_of(second_half, 1)) CHECK(all.at(record) == key);
}

TEST_CASE("a share's loader stays inside its share", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(13);
  LoaderOptions options = test::training(13, 4);
  options.share = {4, 9};
  options.batches = 2;
  Loader loader(numbers, options, Log::silent());
  const auto counts = test::count_records(test::epoch_rows(loader, 0));
  CHECK(counts.size() == 5);
  for (const auto& [record, count] : counts) CHECK((record >= 4 && record < 9 && count <= 2));
}

TEST_CASE("a share may change from epoch to epoch, shuffled or not", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(12);
  LoaderOptions options = test::training(12, 4);
  options.share = {0, 4};
  options.share_in = [](int64_t epoch) { return Share{4 * (epoch % 3), 4 * (epoch % 3) + 4}; };
  for (const bool shuffle : {true, false}) {
    INFO("shuffle " << shuffle);
    options.shuffle = shuffle;
    Loader loader(numbers, options, Log::silent());
    for (const int64_t epoch : {0, 1, 2, 1}) {
      const auto counts = test::count_records(test::epoch_rows(loader, epoch));
      CHECK(counts.size() == 4);
      CHECK(counts.begin()->first == static_cast<float>(4 * epoch));
    }
  }
}

TEST_CASE("a share shorter than the epoch begins again in the same order", "[data]") {
  LoaderOptions options = test::training(3, 4);
  options.batches = 2;
  Loader loader(std::make_shared<test::Numbers>(3), options, Log::silent());
  const auto rows = test::epoch_rows(loader, 0);
  REQUIRE(rows.size() == 8);
  for (size_t i = 3; i < 8; i++) CHECK(rows[i] == rows[i - 3]);
}

TEST_CASE("without shuffling records come in the file's order, in every epoch", "[data]") {
  LoaderOptions options = test::training(6, 3);
  options.shuffle = false;
  Loader loader(std::make_shared<test::Numbers>(6), options, Log::silent());
  for (int64_t epoch = 0; epoch < 2; epoch++) {
    const auto rows = test::epoch_rows(loader, epoch);
    for (size_t i = 0; i < 6; i++) CHECK(rows[i].record == static_cast<float>(i));
  }
}

TEST_CASE("an epoch can begin in its middle", "[data]") {
  Loader loader(std::make_shared<test::Numbers>(50), test::training(50, 8), Log::silent());
  const auto whole = test::epoch_rows(loader, 2);
  for (const int64_t first : {0, 1, 5, 6, 7}) {
    const auto rest = test::epoch_rows(loader, 2, first);
    CHECK(rest == std::vector<test::Row>(whole.begin() + static_cast<long>(8 * first), whole.end()));
  }
}

TEST_CASE("validation counts every record once and none of the padding", "[data]") {
  LoaderOptions options = test::training(10, 4);
  options.mode = LoaderOptions::Mode::kValidation;
  options.batches = 4;
  Loader loader(std::make_shared<test::Numbers>(10), options, Log::silent());
  loader.start(0);
  std::vector<int64_t> counts;
  while (const LoadedBatch* batch = must(loader.next())) {
    counts.push_back(batch->count);
    CHECK(batch->images().floats.size() == 8);  // whole batches, always
    for (size_t i = static_cast<size_t>(batch->count); i < 4; i++) CHECK(batch->images().floats[2 * i] == 0.0f);
  }
  CHECK(counts == std::vector<int64_t>{4, 4, 2, 0});
}

TEST_CASE("a loader that gets another share returns the batches of a loader made for it", "[data]") {
  auto numbers = std::make_shared<test::Numbers>(40);
  LoaderOptions options = test::training(10, 4);
  Loader loader(numbers, options, Log::silent());
  test::epoch_rows(loader, 0);
  loader.start(1);
  REQUIRE(must(loader.next()) != nullptr);
  LoaderOptions other = options;
  other.share = {7, 37};
  other.batches = 9;
  loader.set_share(other);
  CHECK(loader.batches() == 9);
  Loader fresh(numbers, other, Log::silent());
  CHECK(test::epoch_rows(loader, 1) == test::epoch_rows(fresh, 1));
  CHECK(test::epoch_rows(loader, 2) == test::epoch_rows(fresh, 2));
}
