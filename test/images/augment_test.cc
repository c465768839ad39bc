#include "images/augmentation/augment.h"

#include <cstring>
#include <map>
#include <memory>

#include "data/make_images.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

AugmentOptions plain(Shape image) {
  const auto channels = static_cast<size_t>(image[0]);
  AugmentOptions options{.image = std::move(image)};
  options.mean.assign(channels, 0.0f);
  options.std.assign(channels, 1.0f);
  return options;
}

// Augments in both ways: to floats, and to pixels that are normalized later. Both must draw the same random numbers and
// give the same bits.
std::vector<float> augment(const AugmentOptions& options, const Image& image, uint64_t seed = 1) {
  const Augmenter augmenter(options);
  RandomStream random(seed, Use::kTest), random_of_crop(seed, Use::kTest);
  Augmenter::Scratch scratch;
  const auto elements = static_cast<size_t>(element_count(options.image));
  std::vector<float> out(elements), normalised(elements);
  WholeImage whole(image);
  must(augmenter.apply(whole, random, scratch, out));
  std::vector<uint8_t> pixels(elements);
  const std::vector<uint8_t> mirrored = {must(augmenter.crop(whole, random_of_crop, scratch, pixels))};
  augmenter.normalisation()->apply(pixels, mirrored, normalised);
  CHECK(std::memcmp(out.data(), normalised.data(), elements * sizeof(float)) == 0);
  CHECK(random.below(1 << 30) == random_of_crop.below(1 << 30));
  return out;
}

}  // namespace

// A 3 x 3 crop takes rows and columns 1 to 3 of 5 x 5, and 0 to 2 of 4 x 4.
TEST_CASE("the central crop rounds its offset down", "[images]") {
  const auto of_five = augment(plain({1, 3, 3}), test::position_image(5, 5, 1));
  CHECK(of_five == std::vector<float>{17, 18, 19, 33, 34, 35, 49, 50, 51});
  const auto of_four = augment(plain({1, 3, 3}), test::position_image(4, 4, 1));
  CHECK(of_four == std::vector<float>{0, 1, 2, 16, 17, 18, 32, 33, 34});
}

TEST_CASE("channels come out as red, green, blue, alpha planes", "[images]") {
  Image pixel;
  pixel.resize(1, 1, 4);
  pixel.pixels = {10, 20, 30, 40};  // blue, green, red, alpha
  CHECK(augment(plain({4, 1, 1}), pixel) == std::vector<float>{30, 20, 10, 40});
  pixel.resize(1, 1, 3);
  CHECK(augment(plain({3, 1, 1}), pixel) == std::vector<float>{30, 20, 10});
}

// (pixel - mean) * scale / std.
TEST_CASE("mean, std and scale act by channel", "[images]") {
  Image pixels;
  pixels.resize(1, 2, 1);
  pixels.pixels = {200, 0};
  AugmentOptions options = plain({1, 1, 2});
  options.mean = {123.68f};
  options.std = {58.393f};
  const auto out = augment(options, pixels);
  CHECK(out[0] == Approx(1.307006).epsilon(1e-6));
  CHECK(out[1] == Approx(-2.118062).epsilon(1e-6));
  options.std = {1.0f};
  options.scale = 0.5f;
  CHECK(augment(options, pixels)[0] == Approx(0.5 * (200 - 123.68)));
}

TEST_CASE("mirroring reverses the rows and does not change the mean image", "[images]") {
  AugmentOptions options = plain({1, 2, 3});
  options.mirror = true;
  const Image image = test::position_image(2, 3, 1);
  CHECK(augment(options, image) == std::vector<float>{2, 1, 0, 18, 17, 16});
  options.mean_image = std::make_shared<const std::vector<float>>(std::vector<float>{0, 1, 2, 10, 20, 30});
  // The mean is taken off where the pixel came from: 0-0, 1-1, 2-2 and 16-10, 17-20, 18-30, then mirrored.
  CHECK(augment(options, image) == std::vector<float>{0, 0, 0, -12, -3, 6});
}

TEST_CASE("the random mirror is a fair coin", "[images]") {
  AugmentOptions options = plain({1, 1, 2});
  options.distortion.random_mirror = true;
  const Image image = test::position_image(1, 2, 1);
  int mirrored = 0;
  for (uint64_t seed = 0; seed < 1000; seed++) mirrored += augment(options, image, seed)[0] == 1.0f ? 1 : 0;
  CHECK(mirrored > 430);
  CHECK(mirrored < 570);
}

TEST_CASE("random crops reach every position, equally often", "[images]") {
  AugmentOptions options = plain({1, 3, 3});
  options.distortion.random_crop = true;
  const Image image = test::position_image(5, 6, 1);
  std::map<float, int> seen;
  for (uint64_t seed = 0; seed < 2400; seed++) seen[augment(options, image, seed)[0]]++;
  CHECK(seen.size() == 12);  // 3 rows x 4 columns
  for (const auto& [corner, count] : seen) CHECK((count > 130 && count < 270));
}

TEST_CASE("a border is filled before the crop", "[images]") {
  Image image;
  image.resize(1, 1, 1);
  image.pixels = {7};
  AugmentOptions options = plain({1, 3, 3});
  options.distortion.pad = 1;
  options.distortion.fill_value = 127;
  CHECK(augment(options, image) == std::vector<float>{127, 127, 127, 127, 7, 127, 127, 127, 127});
}

// 200 x 150 becomes 224 x 168, then 298 x 224.
TEST_CASE("an image smaller than the crop is enlarged, rows first", "[images]") {
  const Image small = test::gradient_image(200, 150, 3, 1);
  Image first, second;
  must(resize_image(small, 224, 168, first));
  must(resize_image(first, 298, 224, second));
  const auto expected = augment(plain({3, 224, 224}), second);  // the crop of rows 37 to 260
  CHECK(augment(plain({3, 224, 224}), small) == expected);
  CHECK(augment(plain({1, 4, 4}), test::position_image(1, 1, 1)) == std::vector<float>(16, 0.0f));
}

TEST_CASE("an image that cannot become the crop is an error", "[images]") {
  RandomStream random(1, Use::kTest);
  Augmenter::Scratch scratch;
  std::vector<float> out(3 * 224 * 224);
  const Augmenter augmenter(plain({3, 224, 224}));
  for (const Image& image : {test::gradient_image(1, 20000, 3, 1), test::gradient_image(300, 300, 1, 1)}) {
    WholeImage whole(image);
    CHECK(augmenter.apply(whole, random, scratch, out).error().code == Code::kData);
  }
}

// augment() compares both ways. The images are larger than the crop, of its size, and too small in both directions.
TEST_CASE("pixels become the same floats as the augmenter's, with all options", "[images]") {
  for (const int channels : {1, 3, 4}) {
    AugmentOptions options = plain({channels, 9, 7});
    for (int k = 0; k < channels; k++) {
      options.mean[static_cast<size_t>(k)] = 123.68f - 7.3f * static_cast<float>(k);
      options.std[static_cast<size_t>(k)] = 58.393f + static_cast<float>(k);
    }
    options.scale = 0.017f;
    std::vector<float> mean_image;
    for (int i = 0; i < channels * 9 * 7; i++) mean_image.push_back(100.1f + static_cast<float>(i % 31));
    for (const bool by_image : {false, true}) {
      options.mean_image = by_image ? std::make_shared<const std::vector<float>>(mean_image) : nullptr;
      for (int bits = 0; bits < 16; bits++) {
        options.distortion.random_crop = (bits & 1) != 0;
        options.distortion.random_mirror = (bits & 2) != 0;
        options.mirror = (bits & 4) != 0;
        options.distortion.pad = (bits & 8) != 0 ? 2 : 0;
        for (const auto& [height, width] : {std::pair{20, 13}, {9, 7}, {4, 3}}) {
          INFO(channels << " channels, options " << bits << ", " << height << " x " << width);
          for (uint64_t seed = 1; seed <= 4; seed++) {
            augment(options, test::gradient_image(height, width, channels, static_cast<int>(seed)), seed);
          }
        }
      }
    }
  }
}

TEST_CASE("a crop of pixels is not mirrored, but says whether it should be", "[images]") {
  AugmentOptions options = plain({3, 1, 2});
  options.mirror = true;
  Image image;
  image.resize(1, 2, 3);
  image.pixels = {10, 20, 30, 40, 50, 60};
  RandomStream random(1, Use::kTest);
  Augmenter::Scratch scratch;
  std::vector<uint8_t> pixels(6);
  const Augmenter augmenter(options);
  WholeImage whole(image);
  CHECK(must(augmenter.crop(whole, random, scratch, pixels)));
  CHECK(pixels == image.pixels);
  const Image gray = test::gradient_image(9, 9, 1, 1);
  WholeImage gray_image(gray);
  CHECK(augmenter.crop(gray_image, random, scratch, pixels).error().code == Code::kData);
}

// Only the crop's colors count, not those around it; and the mirror is drawn after the colors.
TEST_CASE("colors are distorted only in the crop, before mirroring", "[images]") {
  AugmentOptions options = plain({3, 2, 2});
  options.mirror = true;
  options.distortion.color.contrast = 0.5;
  Image image = test::gradient_image(6, 6, 3, 1);
  const auto expected = augment(options, image, 3);
  image.at(0, 0)[0] = 255;  // outside the central crop: the mean of the gray values does not see it
  CHECK(augment(options, image, 3) == expected);
  image.at(2, 2)[0] = 255;
  CHECK(augment(options, image, 3) != expected);
}

TEST_CASE("pixels and floats agree under every distortion of images", "[images]") {
  AugmentOptions options = plain({3, 24, 20});
  options.distortion = {.interpolation = Interpolation::kRandom,
                        .resize = 30,
                        .rotate_max = 10,
                        .shear_max = 0.1,
                        .scale = {0.8, 1.2},
                        .aspect = {0.75, 1.25},
                        .random_crop = true,
                        .color = {0.4, 0.4, 0.4, 36, 50, 50, 0.1},
                        .random_mirror = true};
  for (uint64_t seed = 1; seed <= 30; seed++) augment(options, test::gradient_image(33, 41, 3, 2), seed);
  options.distortion.random_crop = false;
  options.distortion.scale = {};
  options.distortion.random_resized_crop = true;
  options.distortion.area = {0.08, 1};
  for (uint64_t seed = 1; seed <= 30; seed++) augment(options, test::gradient_image(33, 41, 3, 2), seed);
}

// (pixel - mean) * contrast * scale / std + illumination * scale / std.
TEST_CASE("contrast and illumination change all numbers of an image alike, and make no pixels", "[images]") {
  AugmentOptions options = plain({3, 1, 2});
  options.mean = {10, 20, 30};
  options.std = {1, 2, 4};
  options.distortion.random_contrast = 0.5;
  options.distortion.random_illumination = 8;
  Image image;
  image.resize(1, 2, 3);
  image.pixels = {50, 60, 70, 30, 20, 10};
  const Augmenter augmenter(options);
  CHECK(augmenter.normalisation() == nullptr);
  Augmenter::Scratch scratch;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    RandomStream random(seed, Use::kTest), same(seed, Use::kTest);
    std::vector<float> out(6);
    WholeImage whole(image);
    must(augmenter.apply(whole, random, scratch, out));
    const double c = 1 + same.uniform(-0.5, 0.5), i = same.uniform(-8, 8);
    const double plain[6] = {60, 0, 40. / 2, 0, 20. / 4, 0}, std[3] = {1, 2, 4};
    for (size_t k = 0; k < 6; k++) CHECK(out[k] == Approx(plain[k] * c + i / std[k / 2]).margin(1e-4));
  }
  RandomStream random(1, Use::kTest);
  std::vector<uint8_t> pixels(6);
  WholeImage whole(image);
  CHECK_THROWS_AS(augmenter.crop(whole, random, scratch, pixels), CheckFailed);
}
