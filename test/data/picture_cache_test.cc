#include "data/sources/picture_cache.h"

#include <thread>

#include "data/loading/image_dataset.h"
#include "data/loading/open.h"
#include "data/records/record_writer.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

constexpr int64_t kPictures = 12;

// JPEGs of different sizes, the shorter edge from 40 to 62. Record 5 is broken; record 7 ends early.
void write_pictures(const std::string& path) {
  RecordWriter writer = must(RecordWriter::create(path));
  for (int i = 0; i < kPictures; i++) {
    std::vector<uint8_t> file = must(encode_image(test::gradient_image(40 + 2 * i, 90 - 3 * i, 3, i), ".jpg", 90));
    if (i == 5) file = {'n', 'o'};
    if (i == 7) file.resize(file.size() / 2);
    must(writer.append(static_cast<uint64_t>(i),
                       test::image_payload(static_cast<uint64_t>(i), static_cast<float>(i), file)));
  }
  must(writer.commit());
}

struct LoadedPicture {
  std::vector<float> numbers;
  float label = -1;
  bool operator==(const LoadedPicture&) const = default;
};

// Each picture in an epoch; empty if it is broken.
std::vector<LoadedPicture> load_all(const Dataset& dataset, uint64_t epoch) {
  std::vector<LoadedPicture> all;
  for (int64_t i = 0; i < dataset.size(); i++) {
    LoadedPicture one{std::vector<float>(static_cast<size_t>(element_count(dataset.image())))};
    RandomStream random(4, Use::kAugment, epoch, static_cast<uint64_t>(i));
    if (!dataset.load(i, random, one.numbers, std::span(&one.label, 1))) one = {};
    all.push_back(std::move(one));
  }
  return all;
}

DataOptions cache_options(const std::string& path, int64_t cache_bytes) {
  DataOptions options;
  options.data_train = path;
  options.image_shape = {3, 24, 24};
  options.cache_bytes = cache_bytes;
  return options;
}

std::vector<Distortion> distortions() {
  std::vector<Distortion> all(6);
  all[1] = {.random_crop = true, .random_mirror = true};
  all[2] = {.resize = 32, .random_crop = true};
  all[3] = {.random_resized_crop = true, .area = {0.2, 1}, .random_mirror = true};
  all[4] = {.interpolation = Interpolation::kRandom, .resize = 30, .random_crop = true};
  all[5] = {.interpolation = Interpolation::kAuto, .resize = 48, .rotate_max = 10, .shear_max = 0.1, .pad = 2};
  return all;
}

}  // namespace

TEST_CASE("a picture from the cache gives the same numbers under every augmentation", "[data]") {
  const test::TempDir dir;
  write_pictures(dir.path("a.rec"));
  for (const Distortion& distortion : distortions()) {
    DataOptions without = cache_options(dir.path("a.rec"), 0), with = cache_options(dir.path("a.rec"), 1 << 20);
    without.training = with.training = distortion;
    const auto plain = must(open_dataset(without, Log::silent())).train;
    const auto kept = must(open_dataset(with, Log::silent())).train;
    for (const uint64_t epoch : {0, 1, 2}) REQUIRE(load_all(*kept, epoch) == load_all(*plain, epoch));
    // The two that cannot be decoded are tried again in every epoch.
    CHECK(kept->cache_use().pictures == kPictures - 2);
    CHECK(kept->cache_use().hits == 2 * (kPictures - 2));
    CHECK(kept->cache_use().misses == kPictures + 2 * 2);
    CHECK(plain->cache_use() == CacheUse{});
  }
}

TEST_CASE("a cache takes no more than its budget, and training and validation share it", "[data]") {
  const test::TempDir dir;
  write_pictures(dir.path("a.rec"));
  write_pictures(dir.path("b.rec"));
  constexpr int64_t kBytes = 60000;  // about five pictures
  DataOptions options = cache_options(dir.path("a.rec"), kBytes);
  options.data_val = dir.path("b.rec");
  const DataSets sets = must(open_dataset(options, Log::silent()));
  for (const uint64_t epoch : {0, 1}) {
    (void)load_all(*sets.train, epoch);
    (void)load_all(*sets.validation, epoch);
  }
  const CacheUse training = sets.train->cache_use(), validation = sets.validation->cache_use();
  CHECK(training.pictures >= 3);
  CHECK(training.hits == training.pictures);
  CHECK(training.bytes + validation.bytes <= kBytes);
  CHECK(training.bytes + validation.bytes > kBytes / 2);
  CacheBudget budget(10);
  CHECK(budget.take(4));
  CHECK_FALSE(budget.take(7));
  CHECK(budget.take(6));
  budget.give_back(6);
  CHECK(budget.take(5));
}

TEST_CASE("threads that read the same pictures at once keep each only once", "[data]") {
  const test::TempDir dir;
  write_pictures(dir.path("a.rec"));
  const auto plain = must(open_dataset(cache_options(dir.path("a.rec"), 0), Log::silent())).train;
  const auto kept = must(open_dataset(cache_options(dir.path("a.rec"), 1 << 20), Log::silent())).train;
  const std::vector<LoadedPicture> expected = load_all(*plain, 0);
  std::vector<std::vector<LoadedPicture>> loaded(4);
  std::vector<std::thread> threads;
  for (std::vector<LoadedPicture>& mine : loaded) {
    threads.emplace_back([&mine, &kept] {
      for (int round = 0; round < 3; round++) mine = load_all(*kept, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<LoadedPicture>& mine : loaded) CHECK(mine == expected);
  CHECK(kept->cache_use().pictures == kPictures - 2);
}
