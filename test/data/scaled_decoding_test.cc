// JPEGs that are decoded smaller before they are resized (--scaled-decoding).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/loading/open.h"
#include "data/sources/image_source.h"
#include "images/augmentation/augment.h"
#include "images/augmentation/geometry.h"
#include "images/make_jpeg.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// Waves of more than 100 pixels, as smooth as a photograph that is to be shrunk.
Image waves(int height, int width, int channels) {
  Image image;
  image.resize(height, width, channels);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      for (int k = 0; k < channels; k++) {
        image.at(y, x)[k] =
            static_cast<uint8_t>(128 + 60 * std::sin((x + 9 * k) / 20.0) + 50 * std::cos((y + x * k) / 26.0));
      }
    }
  }
  return image;
}

double mean_difference(const Image& a, const Image& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(a.channels == b.channels);
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); i++) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

// Each pixel is the mean of as many as it stands for.
Image averaged(const Image& image, int divisor) {
  Image out;
  out.resize((image.height + divisor - 1) / divisor, (image.width + divisor - 1) / divisor, image.channels);
  for (int y = 0; y < out.height; y++) {
    for (int x = 0; x < out.width; x++) {
      const int bottom = std::min(image.height, (y + 1) * divisor), right = std::min(image.width, (x + 1) * divisor);
      for (int k = 0; k < image.channels; k++) {
        int sum = 0;
        for (int i = y * divisor; i < bottom; i++) {
          for (int j = x * divisor; j < right; j++) sum += image.at(i, j)[k];
        }
        out.at(y, x)[k] = static_cast<uint8_t>(sum / ((bottom - y * divisor) * (right - x * divisor)));
      }
    }
  }
  return out;
}

// The mean difference between a shrunk picture and the averages of the pixels of the whole one.
double difference_from_averages(const std::vector<uint8_t>& file, int channels, int divisor) {
  ImageDecoder decoder;
  Image full, shrunk;
  must(decoder.decode(file, channels, full));
  must(decoder.open(file, channels));
  must(decoder.read(whole_picture(decoder.shrink(divisor)), shrunk));
  return mean_difference(shrunk, averaged(full, divisor));
}

std::vector<uint8_t> encoded_waves(int height, int width, int channels) {
  return must(encode_image(waves(height, width, channels), ".jpg", 95));
}

// Decodes the picture smaller, and random parts of it, which must have the same pixels.
void check_shrunk_parts(const std::vector<uint8_t>& file, int channels, int divisor, const ImageSize& expected) {
  ImageDecoder decoder;
  must(decoder.open(file, channels));
  REQUIRE(decoder.shrink(divisor) == expected);
  Image whole;
  REQUIRE(must(decoder.read(whole_picture(expected), whole)) == whole_picture(expected));
  REQUIRE(whole.size() == expected);
  RandomStream random(7, Use::kTest);
  for (int i = 0; i < 6; i++) {
    Window wanted{.y = static_cast<int>(random.below(expected.height)),
                  .x = static_cast<int>(random.below(expected.width))};
    wanted.height = 1 + static_cast<int>(random.below(expected.height - wanted.y));
    wanted.width = 1 + static_cast<int>(random.below(expected.width - wanted.x));
    must(decoder.open(file, channels));
    decoder.shrink(divisor);
    Image part;
    const Window at = must(decoder.read(wanted, part));
    REQUIRE(at.x <= wanted.x);
    REQUIRE(at.x + at.width >= wanted.x + wanted.width);
    for (int y = wanted.y; y < wanted.y + wanted.height; y++) {
      const auto bytes = static_cast<size_t>(wanted.width) * static_cast<size_t>(channels);
      REQUIRE(std::memcmp(part.at(y - at.y, wanted.x - at.x), whole.at(y, wanted.x), bytes) == 0);
    }
  }
}

ImageSize shrunk_size(const ImageSize& size, int divisor) {
  return {(size.height + divisor - 1) / divisor, (size.width + divisor - 1) / divisor};
}

struct ScaledCrop {
  Image image;
  int64_t decoded = 0;  // pixels
};

// Counts the pixels that are decoded.
class CountingPicture : public OpenPicture {
 public:
  explicit CountingPicture(ReadScratch& picture) : picture_(picture) {}
  [[nodiscard]] ImageSize size() const override { return picture_.size(); }
  [[nodiscard]] int channels() const override { return picture_.channels(); }
  bool shrink(int divisor) override { return picture_.shrink(divisor); }
  Result<PicturePart> pixels(const Window& wanted) override {
    auto part = picture_.pixels(wanted);
    if (part) decoded = int64_t{part->at.height} * part->at.width;
    return part;
  }
  int64_t decoded = 0;

 private:
  ReadScratch& picture_;
};

ScaledCrop crop_of(Bytes file, int channels, Distortion distortion, bool scaled, uint64_t seed = 1) {
  distortion.scaled_decoding = scaled;
  const auto count = static_cast<size_t>(channels);
  const Augmenter augmenter({.image = {channels, 32, 40},
                             .distortion = std::move(distortion),
                             .mean = std::vector<float>(count, 0),
                             .std = std::vector<float>(count, 1)});
  ReadScratch scratch;
  must(scratch.open(file, channels));
  CountingPicture picture(scratch);
  RandomStream random(seed, Use::kTest);
  Augmenter::Scratch memory;
  ScaledCrop crop;
  crop.image.resize(32, 40, channels);
  must(augmenter.crop(picture, random, memory, crop.image.pixels));
  crop.decoded = picture.decoded;
  return crop;
}

const Distortion kAreaCrop = {.aspect = {0.9, 1.2}, .random_resized_crop = true, .area = {0.4, 1}};

}  // namespace

TEST_CASE("a picture is shrunk by what leaves the resize something to shrink", "[data]") {
  CHECK(divisor_before_resize({448, 448}, {224, 224}) == 2);
  CHECK(divisor_before_resize({447, 900}, {224, 224}) == 1);
  CHECK(divisor_before_resize({900, 447}, {224, 224}) == 1);
  CHECK(divisor_before_resize({900, 895}, {224, 224}) == 2);
  CHECK(divisor_before_resize({896, 1800}, {224, 224}) == 4);
  CHECK(divisor_before_resize({20000, 2000}, {224, 224}) == 8);
  CHECK(divisor_before_resize({8, 8}, {1, 1}) == 8);
}

TEST_CASE("a shrunk JPEG has its edges divided and rounded up, and any part of it the same pixels", "[data]") {
  ImageDecoder decoder;
  for (const int channels : {1, 3}) {
    for (const ImageSize& size : {ImageSize{97, 131}, {64, 48}, {33, 257}, {7, 9}, {1, 1}}) {
      const auto file = encoded_waves(static_cast<int>(size.height), static_cast<int>(size.width), channels);
      for (const int divisor : {2, 4, 8}) {
        INFO(size.height << " x " << size.width << " by " << divisor << ", " << channels << " channels");
        check_shrunk_parts(file, channels, divisor, shrunk_size(size, divisor));
        // The next picture has its own size again.
        must(decoder.open(file, channels));
        decoder.shrink(divisor);
        CHECK(must(decoder.open(file, channels)) == size);
        Image full;
        must(decoder.read(whole_picture(size), full));
        CHECK(full.size() == size);
      }
    }
  }
}

TEST_CASE(
    "JPEGs of all sampling factors give the same pixels in a part, and those with factors above 2 keep their size",
    "[data]") {
  const ImageSize size{70, 150};
  for (const auto& [h, v] :
       {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}, {4, 1}, {1, 4}, {3, 2}, {2, 3}, {4, 2}, {2, 4}}) {
    const auto file = test::make_jpeg(70, 150, {.luma_h = h, .luma_v = v});
    for (const int divisor : {2, 4, 8}) {
      INFO("factors " << h << " and " << v << ", by " << divisor);
      check_shrunk_parts(file, 3, divisor, std::max(h, v) > 2 ? size : shrunk_size(size, divisor));
    }
  }
}

TEST_CASE("scaled decoding decodes fewer pixels and changes them a little", "[data]") {
  for (const int channels : {1, 3}) {
    const auto file = encoded_waves(300, 420, channels);
    for (const bool by_area : {true, false}) {
      Distortion distortion = kAreaCrop;
      if (!by_area) distortion = {.resize = 70, .random_crop = true};
      for (uint64_t seed = 1; seed <= 20; seed++) {
        INFO(channels << " channels, by area " << by_area << ", seed " << seed);
        const ScaledCrop full = crop_of(file, channels, distortion, false, seed);
        const ScaledCrop scaled = crop_of(file, channels, distortion, true, seed);
        CHECK(mean_difference(full.image, scaled.image) < 7);
        CHECK(mean_difference(full.image, scaled.image) > 0);
        CHECK(scaled.decoded < full.decoded / 3);
      }
    }
  }
}

TEST_CASE("a cut of a shrunk picture is rounded to its pixels, and a resize that nothing is left of is left out",
          "[data]") {
  const auto shrunk = [](const Window& part, const ImageSize& to, int divisor) {
    const std::vector<GeometryStep> steps = {Cut{part}, Resize{to}};
    return shrunk_steps(steps, divisor, {100, 100});
  };
  auto steps = shrunk({.y = 5, .x = 6, .height = 62, .width = 81}, {14, 10}, 4);
  REQUIRE(steps.size() == 2);
  CHECK(std::get<Cut>(steps[0]).part == Window{.y = 1, .x = 2, .height = 16, .width = 20});
  CHECK(std::get<Resize>(steps[1]).size == ImageSize{14, 10});
  steps = shrunk({.y = 3, .x = 1, .height = 80, .width = 160}, {40, 80}, 2);
  REQUIRE(steps.size() == 1);
  CHECK(std::get<Cut>(steps[0]).part == Window{.y = 2, .x = 1, .height = 40, .width = 80});
  const std::vector<GeometryStep> resized = {Resize{{50, 50}}, Cut{{.height = 9, .width = 9}}};
  CHECK(std::holds_alternative<Cut>(shrunk_steps(resized, 2, {50, 50}).at(0)));
  CHECK(std::get<Resize>(shrunk_steps(resized, 2, {51, 50}).at(0)).size == ImageSize{50, 50});
}

TEST_CASE("without a resize to half or less, scaled decoding changes nothing", "[data]") {
  const auto file = encoded_waves(60, 70, 3);
  for (const Distortion& distortion :
       {Distortion{.random_crop = true}, Distortion{.resize = 40}, Distortion{.resize = 90}, kAreaCrop,
        Distortion{.rotate_max = 10, .scale = {0.6, 1}}}) {
    const ScaledCrop full = crop_of(file, 3, distortion, false), scaled = crop_of(file, 3, distortion, true);
    CHECK(scaled.image.pixels == full.image.pixels);
    CHECK(scaled.decoded == full.decoded);
  }
  // Only JPEGs can be decoded smaller.
  const auto png = must(encode_image(waves(300, 420, 3), ".png", 3));
  CHECK(crop_of(png, 3, kAreaCrop, true).image.pixels == crop_of(png, 3, kAreaCrop, false).image.pixels);
}

// The resize of --resize may be in a cache already, so that of a later crop decodes the picture as it is.
TEST_CASE("with --resize only the first resize shrinks the picture", "[data]") {
  const auto file = encoded_waves(300, 420, 3);
  Distortion distortion = kAreaCrop;
  distortion.resize = 300;
  CHECK(crop_of(file, 3, distortion, true).image.pixels == crop_of(file, 3, distortion, false).image.pixels);
}

TEST_CASE("turned, progressive and CMYK pictures are shrunk like others", "[data]") {
  const auto with_tag = [](std::vector<uint8_t> file, uint8_t tag) {
    const std::vector<uint8_t> exif = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                       0,    1,    1, 18, 0,   3,   0,   0,   0, 1, 0,   tag, 0, 0,  0, 0, 0, 0};
    file.insert(file.begin() + 2, exif.begin(), exif.end());
    return file;
  };
  for (uint8_t tag = 1; tag <= 8; tag++) {
    INFO("orientation " << int{tag});
    const auto file = with_tag(encoded_waves(301, 423, 3), tag);
    ImageDecoder decoder;
    const ImageSize size = must(decoder.open(file, 3));
    CHECK(size == (tag < 5 ? ImageSize{301, 423} : ImageSize{423, 301}));
    CHECK(decoder.shrink(4) == (tag < 5 ? ImageSize{76, 106} : ImageSize{106, 76}));
    const auto of_whole_blocks = with_tag(encoded_waves(304, 424, 3), tag);
    for (const int divisor : {2, 4, 8}) CHECK(difference_from_averages(of_whole_blocks, 3, divisor) < 2.5);
    CHECK(mean_difference(crop_of(file, 3, kAreaCrop, false).image, crop_of(file, 3, kAreaCrop, true).image) < 7);
  }
  for (const test::JpegKind& kind :
       {test::JpegKind{.progressive = true}, test::JpegKind{.from = JCS_CMYK, .stored = JCS_CMYK},
        test::JpegKind{.from = JCS_CMYK, .stored = JCS_YCCK},
        test::JpegKind{.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE}}) {
    const auto file = test::make_jpeg(240, 320, kind);
    for (const int channels : {1, 3}) {
      INFO("kind " << kind.stored << (kind.progressive ? ", progressive, " : ", ") << channels << " channels");
      for (const int divisor : {2, 4, 8}) CHECK(difference_from_averages(file, channels, divisor) < 8);  // sharp edges
      const ScaledCrop full = crop_of(file, channels, kAreaCrop, false),
                       scaled = crop_of(file, channels, kAreaCrop, true);
      CHECK(scaled.decoded < full.decoded / 3);
    }
  }
}

TEST_CASE("a damaged JPEG is a picture or an error when it is shrunk", "[data]") {
  const auto file = encoded_waves(40, 56, 3);
  ImageDecoder decoder;
  Image out;
  const auto try_to_read = [&](const std::vector<uint8_t>& bytes, int divisor) {
    const auto opened = decoder.open(bytes, 3);
    if (!opened) return false;
    const ImageSize size = decoder.shrink(divisor);
    const auto read = decoder.read(whole_picture(size), out);
    if (read) CHECK(out.size() == size);
    return read.has_value();
  };
  for (const int divisor : {2, 8}) {
    for (size_t length = 0; length < file.size(); length += 3) {
      CHECK_FALSE(try_to_read({file.begin(), file.begin() + static_cast<ptrdiff_t>(length)}, divisor));
    }
    for (size_t bit = 0; bit < 8 * file.size(); bit += 5) {
      std::vector<uint8_t> flipped = file;
      flipped[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
      try_to_read(flipped, divisor);
    }
    CHECK(try_to_read(file, divisor));
  }
}

TEST_CASE("a cache of resized pictures has the pixels of scaled decoding, and one of whole pictures is refused",
          "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("a.rec"), 6, 200, 260, 3, 3, ".jpg");
  DataOptions options;
  options.data_train = dir.path("a.rec");
  options.image_shape = {3, 24, 24};
  options.training = {.resize = 60, .scaled_decoding = true, .random_crop = true};
  const auto loaded = [&](const DataOptions& with) {
    const auto train = must(open_dataset(with, Log::silent())).train;
    std::vector<float> all, one(size_t{3} * 24 * 24);
    float label = 0;
    for (const int64_t record : {0, 1, 2, 3, 4, 5, 0, 1, 2}) {
      RandomStream random(4, Use::kAugment, 0, static_cast<uint64_t>(record));
      must(train->load(record, random, one, {&label, 1}));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const std::vector<float> plain = loaded(options);
  options.cache_bytes = 1 << 20;
  CHECK(loaded(options) == plain);
  options.training.scaled_decoding = false;
  CHECK(loaded(options) != plain);
  for (const Distortion& distortion : {kAreaCrop, Distortion{.crop_size_min = 30, .crop_size_max = 40},
                                       Distortion{.interpolation = Interpolation::kRandom, .resize = 60}}) {
    options.training = distortion;
    options.training.scaled_decoding = true;
    const auto refused = open_dataset(options, Log::silent());
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kUsage);
    CHECK_THAT(refused.error().message, Catch::Contains("--data-cache"));
  }
}
