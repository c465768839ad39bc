// Batches of images: as pixels and as floats, and the memory that they are in.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "data/loading/image_dataset.h"
#include "data/loading/loader.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "number_records.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// Record i is an image that depends on i, with the label i % 10. Some records are broken.
class Images : public ImageSource {
 public:
  [[nodiscard]] int64_t size() const override { return 23; }
  [[nodiscard]] int channels() const override { return 3; }
  [[nodiscard]] std::string describe(int64_t index) const override { return fmt::format("image {}", index); }
  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    if (index % 7 == 2) return fail(Code::kData, "{}: broken on purpose", describe(index));
    scratch.open_pixels(12, 12, 3) = test::gradient_image(12, 12, 3, static_cast<int>(index));
    labels[0] = static_cast<float>(index % 10);
    return {};
  }
};

}  // namespace

// Training, with a last batch that is filled up, and validation, with padding; records that are broken in both.
TEST_CASE("batches of pixels are equal to batches of floats before normalization", "[data]") {
  AugmentOptions augment{.image = {3, 8, 8}, .distortion = {.pad = 1, .random_crop = true, .random_mirror = true}};
  augment.mean = {1, 2, 3};
  augment.std = {2, 3, 4};
  const auto dataset = augmented(std::make_shared<Images>(), augment);
  for (const auto mode : {LoaderOptions::Mode::kTraining, LoaderOptions::Mode::kValidation}) {
    LoaderOptions options = test::training(dataset->size(), 4);
    options.mode = mode;
    Loader floats(dataset, options, Log::silent());
    options.pixels = true;
    options.threads = 4;
    Loader pixels(dataset, options, Log::silent());
    for (int64_t epoch = 0; epoch < 2; epoch++) {
      floats.start(epoch);
      pixels.start(epoch);
      while (const LoadedBatch* expected = must(floats.next())) {
        const LoadedBatch& batch = *must(pixels.next());
        REQUIRE(batch.count == expected->count);
        CHECK(batch.images().floats.empty());
        CHECK((expected->images().pixels.empty() && expected->images().mirrored.empty()));
        CHECK(std::ranges::equal(batch.labels, expected->labels));
        std::vector<float> normalised(expected->images().floats.size());
        dataset->normalisation()->apply(batch.images().pixels, batch.images().mirrored, normalised);
        const auto counted = static_cast<ptrdiff_t>(batch.count * 3 * 8 * 8);
        CHECK(std::equal(normalised.begin(), normalised.begin() + counted, expected->images().floats.begin()));
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
  const auto dataset = augmented(std::make_shared<Images>(), augment);
  for (const bool pixels : {false, true}) {
    std::vector<std::pair<std::byte*, std::byte*>> given;
    LoaderOptions options = test::training(dataset->size(), 4);
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
                      : lies_there(batch->images().floats)));
        CHECK(std::ranges::none_of(batch->images().floats, [](float x) { return std::isnan(x); }));
      }
    }
    CHECK(given.size() == 3);
  }
}

TEST_CASE("asking for pixels of a data set that has only floats is a mistake of the caller", "[data]") {
  LoaderOptions options = test::training(4, 2);
  options.pixels = true;
  CHECK_THROWS_AS(Loader(std::make_shared<test::Numbers>(4), options, Log::silent()), CheckFailed);
}

// JPEG images from a file with all random augmentations: the batches must not depend on the number of threads.
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
    LoaderOptions options = test::training(60, 7);
    options.threads = threads;
    Loader loader(dataset, options, Log::silent());
    std::vector<float> all;
    loader.start(1);
    while (const LoadedBatch* batch = must(loader.next())) {
      all.insert(all.end(), batch->images().floats.begin(), batch->images().floats.end());
      all.insert(all.end(), batch->labels.begin(), batch->labels.end());
    }
    CHECK(all.size() == 9 * 7 * (3 * 8 * 8 + 1));
    if (expected.empty()) expected = all;
    CHECK(all == expected);
  }
}
