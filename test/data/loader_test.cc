#include "data/loading/loader.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "data/loading/image_dataset.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

namespace {

// Record i has two numbers: i and a random number. Its label is i % classes. Some records are broken.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    loads++;
    if (throws) throw std::runtime_error("a library threw");
    if (broken.contains(index)) return fail(Code::kData, "numbers: record {}: broken on purpose", index);
    out[0] = static_cast<float>(index);
    out[1] = static_cast<float>(random.uniform());
    labels[0] = static_cast<float>(index % classes) + label_excess;
    return {};
  }

  void will_load(std::span<const int64_t> records) const override {
    const std::lock_guard lock(mutex);
    announced.insert(announced.end(), records.begin(), records.end());
  }
  size_t announced_count() const {
    const std::lock_guard lock(mutex);
    return announced.size();
  }

  mutable std::mutex mutex;
  mutable std::vector<int64_t> announced;
  std::set<int64_t> broken;
  int64_t classes = 10;
  float label_excess = 0;
  bool throws = false;
  mutable std::atomic<int64_t> loads = 0;

 private:
  Shape image_ = {2, 1, 1};
  int64_t size_;
};

// Record i is a picture that depends on i, with the label i % 10. Some records are broken.
class Pictures : public ImageSource {
 public:
  [[nodiscard]] int64_t size() const override { return 23; }
  [[nodiscard]] int channels() const override { return 3; }
  [[nodiscard]] std::string describe(int64_t index) const override { return fmt::format("picture {}", index); }
  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    if (index % 7 == 2) return fail(Code::kData, "{}: broken on purpose", describe(index));
    scratch.open_pixels(12, 12, 3) = test::gradient_image(12, 12, 3, static_cast<int>(index));
    labels[0] = static_cast<float>(index % 10);
    return {};
  }
};

LoaderOptions training(int64_t records, int64_t batch_size) {
  return {.share = {0, records}, .batch_size = batch_size, .labels = {{.name = {}, .classes = 10}}, .seed = 7};
}

struct Row {
  float record = 0, draw = 0, label = 0;
  uint64_t key = 0;
  bool operator==(const Row&) const = default;
};

Row row_of(const LoadedBatch& batch, size_t i) {
  return {batch.images().numbers[2 * i], batch.images().numbers[2 * i + 1], batch.labels[i], batch.keys[i]};
}

// The rows of an epoch, batch after batch. Of validation batches only those that count, without padding.
std::vector<Row> epoch_rows(Loader& loader, int64_t epoch, int64_t first = 0) {
  std::vector<Row> rows;
  loader.start(epoch, first);
  while (const LoadedBatch* batch = must(loader.next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); i++) rows.push_back(row_of(*batch, i));
  }
  return rows;
}

std::map<float, int> count_records(const std::vector<Row>& rows) {
  std::map<float, int> counts;
  for (const Row& row : rows) counts[row.record]++;
  return counts;
}

// Runs an epoch that must fail, and returns its error.
Error failing_epoch(Loader& loader) {
  loader.start(0);
  while (true) {
    const auto batch = loader.next();
    if (!batch) return batch.error();
    if (*batch == nullptr) throw std::runtime_error("the epoch ended without an error");
  }
}

}  // namespace

// 10 records, batches of 4.
TEST_CASE("an epoch has every record once and fills its last batch from its own beginning", "[data]") {
  auto numbers = std::make_shared<Numbers>(10);
  Loader loader(numbers, training(10, 4), Log::silent());
  CHECK(loader.batches() == 3);
  std::vector<std::vector<Row>> epochs;
  for (int64_t epoch = 0; epoch < 3; epoch++) {
    epochs.push_back(epoch_rows(loader, epoch));
    const auto& rows = epochs.back();
    REQUIRE(rows.size() == 12);
    CHECK(count_records({rows.begin(), rows.begin() + 10}).size() == 10);
    CHECK(rows[10] == rows[0]);
    CHECK(rows[11] == rows[1]);
    for (const Row& row : rows) CHECK(row.label == row.record);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epoch_rows(loader, 0) == epochs[0]);  // an epoch's order and draws depend on (seed, epoch) alone
}

TEST_CASE("batches do not depend on the number of threads or on how many are prefetched", "[data]") {
  auto numbers = std::make_shared<Numbers>(101);
  numbers->broken = {3, 50, 51, 99};
  for (const auto mode : {LoaderOptions::Mode::kTraining, LoaderOptions::Mode::kValidation}) {
    LoaderOptions options = training(101, 16);
    options.mode = mode;
    std::vector<Row> expected;
    for (const int threads : {1, 4, 16}) {
      for (const int64_t prefetch : {1, 4, 9}) {
        options.threads = threads;
        options.prefetch = prefetch;
        Loader loader(numbers, options, Log::silent());
        const auto rows = epoch_rows(loader, 3);
        if (expected.empty()) expected = rows;
        CHECK(rows == expected);
      }
    }
  }
}

TEST_CASE("batches do not depend on threads that come and go", "[data]") {
  auto numbers = std::make_shared<Numbers>(301);
  numbers->broken = {3, 50, 51, 99};
  LoaderOptions options = training(301, 8);
  Loader one(numbers, options, Log::silent());
  const std::vector<Row> expected = epoch_rows(one, 3);
  options.threads = 2;
  options.threads_max = 7;
  Loader loader(numbers, options, Log::silent());
  RandomStream random(1, Use::kTest);
  std::vector<Row> rows;
  loader.start(3);
  while (const LoadedBatch* batch = must(loader.next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); i++) rows.push_back(row_of(*batch, i));
    loader.set_threads(1 + static_cast<int>(random.below(7)));
  }
  CHECK(rows == expected);
  CHECK_THROWS_AS(loader.set_threads(0), CheckFailed);
  CHECK_THROWS_AS(loader.set_threads(8), CheckFailed);
}

TEST_CASE("the data set hears of the records of an epoch in their order, before they are loaded", "[data]") {
  const auto numbers = std::make_shared<Numbers>(100);
  LoaderOptions options = training(100, 8);
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

// They are not those that augmentation draws, and neither the share nor the place in the epoch matters.
TEST_CASE("a record's key depends on the epoch and the record", "[data]") {
  const auto numbers = std::make_shared<Numbers>(20);
  const auto keys_of = [&](LoaderOptions options, int64_t epoch) {
    std::map<float, uint64_t> keys;
    Loader loader(numbers, options, Log::silent());
    for (const Row& row : epoch_rows(loader, epoch)) {
      if (keys.contains(row.record)) CHECK(keys[row.record] == row.key);
      keys[row.record] = row.key;
    }
    return keys;
  };
  const std::map<float, uint64_t> all = keys_of(training(20, 8), 1), next = keys_of(training(20, 8), 2);
  std::set<uint64_t> different;
  for (const auto& keys : {all, next}) {
    for (const auto& [record, key] : keys) different.insert(key);
  }
  CHECK(different.size() == 40);
  LoaderOptions second_half = training(20, 5);
  second_half.share = {10, 20};
  second_half.shuffle = false;
  for (const auto& [record, key] : keys_of(second_half, 1)) CHECK(all.at(record) == key);
}

TEST_CASE("a share's loader stays inside its share", "[data]") {
  auto numbers = std::make_shared<Numbers>(13);
  LoaderOptions options = training(13, 4);
  options.share = {4, 9};
  options.batches = 2;
  Loader loader(numbers, options, Log::silent());
  const auto counts = count_records(epoch_rows(loader, 0));
  CHECK(counts.size() == 5);
  for (const auto& [record, count] : counts) CHECK((record >= 4 && record < 9 && count <= 2));
}

TEST_CASE("a share may change from epoch to epoch, shuffled or not", "[data]") {
  auto numbers = std::make_shared<Numbers>(12);
  LoaderOptions options = training(12, 4);
  options.share = {0, 4};
  options.share_in = [](int64_t epoch) { return Share{4 * (epoch % 3), 4 * (epoch % 3) + 4}; };
  for (const bool shuffle : {true, false}) {
    INFO("shuffle " << shuffle);
    options.shuffle = shuffle;
    Loader loader(numbers, options, Log::silent());
    for (const int64_t epoch : {0, 1, 2, 1}) {
      const auto counts = count_records(epoch_rows(loader, epoch));
      CHECK(counts.size() == 4);
      CHECK(counts.begin()->first == static_cast<float>(4 * epoch));
    }
  }
}

TEST_CASE("a share shorter than the epoch begins again in the same order", "[data]") {
  LoaderOptions options = training(3, 4);
  options.batches = 2;
  Loader loader(std::make_shared<Numbers>(3), options, Log::silent());
  const auto rows = epoch_rows(loader, 0);
  REQUIRE(rows.size() == 8);
  for (size_t i = 3; i < 8; i++) CHECK(rows[i] == rows[i - 3]);
}

TEST_CASE("without shuffling records come in the file's order, in every epoch", "[data]") {
  LoaderOptions options = training(6, 3);
  options.shuffle = false;
  Loader loader(std::make_shared<Numbers>(6), options, Log::silent());
  for (int64_t epoch = 0; epoch < 2; epoch++) {
    const auto rows = epoch_rows(loader, epoch);
    for (size_t i = 0; i < 6; i++) CHECK(rows[i].record == static_cast<float>(i));
  }
}

TEST_CASE("an epoch can begin in its middle", "[data]") {
  Loader loader(std::make_shared<Numbers>(50), training(50, 8), Log::silent());
  const auto whole = epoch_rows(loader, 2);
  for (const int64_t first : {0, 1, 5, 6, 7}) {
    const auto rest = epoch_rows(loader, 2, first);
    CHECK(rest == std::vector<Row>(whole.begin() + static_cast<long>(8 * first), whole.end()));
  }
}

TEST_CASE("a restart drops prefetched batches", "[data]") {
  LoaderOptions options = training(64, 4);
  options.threads = 4;
  Loader loader(std::make_shared<Numbers>(64), options, Log::silent());
  const auto expected = epoch_rows(loader, 1);
  for (int i = 0; i < 50; i++) {
    loader.start(0);
    for (int k = 0; k < i % 5; k++) must(loader.next());
    REQUIRE(epoch_rows(loader, 1) == expected);
  }
}

TEST_CASE("peeking shows the next batch and does not change the last one", "[data]") {
  const auto numbers = std::make_shared<Numbers>(12);
  Loader loader(numbers, training(12, 4), Log::silent());
  loader.start(0);
  const LoadedBatch* last = must(loader.next());
  std::set<uint64_t> serials = {last->serial};
  for (int batch = 1; batch < 3; batch++) {
    const std::vector<float> before(last->images().numbers.begin(), last->images().numbers.end());
    const LoadedBatch* seen = nullptr;
    while ((seen = loader.peek()) == nullptr) std::this_thread::yield();
    const uint64_t serial = seen->serial;
    const std::vector<float> data(seen->images().numbers.begin(), seen->images().numbers.end());
    CHECK(std::ranges::equal(before, last->images().numbers));
    last = must(loader.next());
    CHECK(last == seen);
    CHECK(last->serial == serial);
    CHECK(std::ranges::equal(data, last->images().numbers));
    CHECK(serials.insert(serial).second);
  }
  CHECK(loader.peek() == nullptr);  // the end of the epoch

  // The serial numbers distinguish a peeked batch from the one that came in its place.
  loader.start(1);
  must(loader.next());
  const LoadedBatch* seen = nullptr;
  while ((seen = loader.peek()) == nullptr) std::this_thread::yield();
  const uint64_t serial = seen->serial;
  loader.start(2);
  CHECK(must(loader.next())->serial != serial);
}

TEST_CASE("a loader ends at any time", "[data]") {
  auto numbers = std::make_shared<Numbers>(64);
  LoaderOptions options = training(64, 4);
  options.threads = 4;
  for (int i = 0; i < 50; i++) {
    Loader loader(numbers, options, Log::silent());
    if (i % 4 > 0) loader.start(0);
    for (int k = 1; k < i % 4; k++) must(loader.next());
  }
}

TEST_CASE("validation counts every record once and none of the padding", "[data]") {
  LoaderOptions options = training(10, 4);
  options.mode = LoaderOptions::Mode::kValidation;
  options.batches = 4;
  Loader loader(std::make_shared<Numbers>(10), options, Log::silent());
  loader.start(0);
  std::vector<int64_t> counts;
  while (const LoadedBatch* batch = must(loader.next())) {
    counts.push_back(batch->count);
    CHECK(batch->images().numbers.size() == 8);  // whole batches, always
    for (size_t i = static_cast<size_t>(batch->count); i < 4; i++) CHECK(batch->images().numbers[2 * i] == 0.0f);
  }
  CHECK(counts == std::vector<int64_t>{4, 4, 2, 0});
}

TEST_CASE("validation leaves out a broken record, and training takes the next one in its place", "[data]") {
  auto numbers = std::make_shared<Numbers>(10);
  numbers->broken = {1, 2, 9};
  LoaderOptions options = training(10, 4);
  options.shuffle = false;
  Loader loader(numbers, options, Log::silent());
  std::vector<float> records;
  for (const Row& row : epoch_rows(loader, 0)) records.push_back(row.record);
  CHECK(records == std::vector<float>{0, 3, 3, 3, 4, 5, 6, 7, 8, 0, 0, 3});
  CHECK(loader.bad_records() == 3);

  options.mode = LoaderOptions::Mode::kValidation;
  Loader validation(numbers, options, Log::silent());
  records.clear();
  for (const Row& row : epoch_rows(validation, 0)) records.push_back(row.record);
  CHECK(records == std::vector<float>{0, 3, 4, 5, 6, 7, 8});

  validation.start(1);
  std::vector<int64_t> named;
  while (const LoadedBatch* batch = must(validation.next())) {
    named.insert(named.end(), batch->records.begin(), batch->records.begin() + batch->count);
  }
  CHECK(named == std::vector<int64_t>{0, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("each broken record is counted once, and one too many ends the run", "[data]") {
  auto numbers = std::make_shared<Numbers>(40);
  numbers->broken = {3, 5, 8};
  LoaderOptions options = training(40, 8);
  options.threads = 4;
  options.max_bad_records = 3;
  Loader loader(numbers, options, Log::silent());
  for (int64_t epoch = 0; epoch < 5; epoch++) epoch_rows(loader, epoch);
  CHECK(loader.bad_records() == 3);

  options.max_bad_records = 2;
  Loader failing(numbers, options, Log::silent());
  const Error error = failing_epoch(failing);
  CHECK(error.code == Code::kData);
  CHECK(error.message.find("--max-bad-records 2") != std::string::npos);
  CHECK(error.message.find("broken on purpose") != std::string::npos);

  options.max_bad_records = 0;
  Loader strict(numbers, options, Log::silent());
  CHECK(failing_epoch(strict).message.find("--max-bad-records N leaves out") != std::string::npos);
}

TEST_CASE("a share with only broken records is an error", "[data]") {
  auto numbers = std::make_shared<Numbers>(4);
  numbers->broken = {0, 1, 2, 3};
  Loader loader(numbers, training(4, 2), Log::silent());
  CHECK(failing_epoch(loader).message.find("none of the records") != std::string::npos);
}

TEST_CASE("a label that is not a class is an error that names the record", "[data]") {
  auto numbers = std::make_shared<Numbers>(30);
  numbers->classes = 11;
  LoaderOptions options = training(30, 4);
  options.threads = 4;
  Loader loader(numbers, options, Log::silent());
  const Error error = failing_epoch(loader);
  CHECK(error.code == Code::kData);
  CHECK((error.message.find("record 10") != std::string::npos || error.message.find("record 21") != std::string::npos));
  CHECK(error.message.find("label 10 is not in the range 0 to 9") != std::string::npos);
}

TEST_CASE("a label that is not a whole number is an error that names the record", "[data]") {
  auto numbers = std::make_shared<Numbers>(30);
  numbers->label_excess = 0.5F;
  LoaderOptions options = training(30, 4);
  options.shuffle = false;
  Loader loader(numbers, options, Log::silent());
  CHECK(failing_epoch(loader).message.find("record 0: label 0.5 is not a whole number") != std::string::npos);
}

TEST_CASE("an error is returned in place of its batch, whatever was prefetched", "[data]") {
  auto numbers = std::make_shared<Numbers>(11);
  numbers->classes = 11;
  LoaderOptions options = training(11, 2);
  options.shuffle = false;
  options.prefetch = 8;
  options.threads = 4;
  Loader loader(numbers, options, Log::silent());
  loader.start(0);
  for (int i = 0; i < 5; i++) CHECK(must(loader.next()) != nullptr);
  CHECK(!loader.next());
}

TEST_CASE("an exception of a decoder becomes an error of the caller", "[data]") {
  auto numbers = std::make_shared<Numbers>(11);
  numbers->throws = true;
  Loader loader(numbers, training(11, 2), Log::silent());
  const Error error = failing_epoch(loader);
  CHECK(error.code == Code::kInternal);
  CHECK(error.message == "a library threw");
}

TEST_CASE("no more batches are prefetched than requested", "[data]") {
  auto numbers = std::make_shared<Numbers>(100);
  LoaderOptions options = training(100, 5);
  options.prefetch = 3;
  {
    Loader loader(numbers, options, Log::silent());
    loader.start(0);
    for (int i = 0; i < 4; i++) must(loader.next());
  }
  CHECK(numbers->loads <= 5 * (4 + 3));
}

TEST_CASE("a loader says how many batches are ready", "[data]") {
  LoaderOptions options = training(15, 5);
  options.prefetch = 2;
  Loader loader(std::make_shared<Numbers>(15), options, Log::silent());
  CHECK(loader.ready_batches() == 0);
  loader.start(0);
  while (loader.ready_batches() < 2) std::this_thread::yield();
  must(loader.next());
  while (loader.ready_batches() < 2) std::this_thread::yield();  // the last two of the epoch
  must(loader.next());
  CHECK(loader.ready_batches() == 1);
  must(loader.next());
  CHECK(loader.ready_batches() == 0);
}

// Training, with a last batch that is filled up, and validation, with padding; records that are broken in both.
TEST_CASE("batches of pixels are equal to batches of numbers before normalization", "[data]") {
  AugmentOptions augment{.image = {3, 8, 8}, .distortion = {.pad = 1, .random_crop = true, .random_mirror = true}};
  augment.mean = {1, 2, 3};
  augment.std = {2, 3, 4};
  const auto dataset = augmented(std::make_shared<Pictures>(), augment);
  for (const auto mode : {LoaderOptions::Mode::kTraining, LoaderOptions::Mode::kValidation}) {
    LoaderOptions options = training(dataset->size(), 4);
    options.mode = mode;
    Loader numbers(dataset, options, Log::silent());
    options.pixels = true;
    options.threads = 4;
    Loader pixels(dataset, options, Log::silent());
    for (int64_t epoch = 0; epoch < 2; epoch++) {
      numbers.start(epoch);
      pixels.start(epoch);
      while (const LoadedBatch* expected = must(numbers.next())) {
        const LoadedBatch& batch = *must(pixels.next());
        REQUIRE(batch.count == expected->count);
        CHECK(batch.images().numbers.empty());
        CHECK((expected->images().pixels.empty() && expected->images().mirrored.empty()));
        CHECK(std::ranges::equal(batch.labels, expected->labels));
        std::vector<float> normalised(expected->images().numbers.size());
        dataset->normalisation()->apply(batch.images().pixels, batch.images().mirrored, normalised);
        const auto counted = static_cast<ptrdiff_t>(batch.count * 3 * 8 * 8);
        CHECK(std::equal(normalised.begin(), normalised.begin() + counted, expected->images().numbers.begin()));
        const auto padding = batch.images().pixels.subspan(static_cast<size_t>(counted));
        if (mode == LoaderOptions::Mode::kValidation && counted == 0) {
          CHECK(std::ranges::count(padding, 0) == std::ssize(padding));
        }
      }
      CHECK(must(pixels.next()) == nullptr);
    }
    CHECK(pixels.bad_records() == 3);
  }
}

TEST_CASE("batches are in memory from the caller, allocated once", "[data]") {
  AugmentOptions augment{.image = {3, 5, 5}, .mean = {1, 2, 3}, .std = {1, 1, 1}};
  const auto dataset = augmented(std::make_shared<Pictures>(), augment);
  for (const bool pixels : {false, true}) {
    std::vector<std::pair<std::byte*, std::byte*>> given;
    LoaderOptions options = training(dataset->size(), 4);
    options.prefetch = 2;
    options.pixels = pixels;
    options.allocate = [&](size_t count) {
      auto memory = allocate_floats(count);
      auto* begin = reinterpret_cast<std::byte*>(memory.get());
      std::fill_n(memory.get(), count, std::numeric_limits<float>::quiet_NaN());
      given.emplace_back(begin, begin + count * sizeof(float));
      return memory;
    };
    Loader loader(dataset, options, Log::silent());
    const auto lies_there = [&](const auto& span) {
      const auto bytes = std::as_bytes(span);
      return std::ranges::any_of(given, [&](const auto& piece) {
        return piece.first <= bytes.data() && bytes.data() + bytes.size() <= piece.second;
      });
    };
    for (int64_t epoch = 0; epoch < 2; epoch++) {
      loader.start(epoch);
      while (const LoadedBatch* batch = must(loader.next())) {
        CHECK(lies_there(batch->labels));
        CHECK((pixels ? lies_there(batch->images().pixels) && lies_there(batch->images().mirrored)
                      : lies_there(batch->images().numbers)));
        CHECK(std::ranges::none_of(batch->images().numbers, [](float x) { return std::isnan(x); }));
      }
    }
    CHECK(given.size() == 3);
  }
}

TEST_CASE("asking for pixels of a data set that has only numbers is a mistake of the caller", "[data]") {
  LoaderOptions options = training(4, 2);
  options.pixels = true;
  CHECK_THROWS_AS(Loader(std::make_shared<Numbers>(4), options, Log::silent()), CheckFailed);
}

// JPEG pictures from a file with all random augmentations: the batches must not depend on the number of threads.
TEST_CASE("batches of a record file are identical for 1, 4 and 16 threads", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("a.rec"), 60, 12, 12, 3, 10, ".jpg");
  const auto source = must(open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()));
  AugmentOptions augment{.image = {3, 8, 8},
                         .distortion = {.interpolation = Interpolation::kRandom,
                                        .resize = 14,
                                        .rotate_max = 10,
                                        .shear_max = 0.1,
                                        .aspect = {0.75, 1.25},
                                        .pad = 1,
                                        .random_crop = true,
                                        .color = {.brightness = 0.4, .h_max = 36, .s_max = 50, .pca_noise = 0.1},
                                        .random_mirror = true,
                                        .random_contrast = 0.2,
                                        .random_illumination = 5}};
  augment.mean = {1, 2, 3};
  augment.std = {1, 1, 1};
  const auto dataset = augmented(source, augment);
  std::vector<float> expected;
  for (const int threads : {1, 4, 16}) {
    LoaderOptions options = training(60, 7);
    options.threads = threads;
    Loader loader(dataset, options, Log::silent());
    std::vector<float> all;
    loader.start(1);
    while (const LoadedBatch* batch = must(loader.next())) {
      all.insert(all.end(), batch->images().numbers.begin(), batch->images().numbers.end());
      all.insert(all.end(), batch->labels.begin(), batch->labels.end());
    }
    CHECK(all.size() == 9 * 7 * (3 * 8 * 8 + 1));
    if (expected.empty()) expected = all;
    CHECK(all == expected);
  }
}
