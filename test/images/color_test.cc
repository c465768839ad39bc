#include "images/augmentation/color.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "data/make_images.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::images;

namespace {

Image pixel(uint8_t blue, uint8_t green, uint8_t red) {
  Image image;
  image.resize(1, 1, 3);
  image.pixels = {blue, green, red};
  return image;
}

uint8_t rounded(double value) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
}

double gray(const uint8_t* p) {
  return std::round(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]);
}

bool within_one(const Image& a, const std::vector<uint8_t>& b) {
  for (size_t i = 0; i < b.size(); i++) {
    if (std::abs(int{a.pixels[i]} - int{b[i]}) > 1) return false;
  }
  return a.pixels.size() == b.size();
}

// Converts one pixel to HLS by its definition (Foley and van Dam) in OpenCV's 8 bits, shifts it, and converts it back.
Image moved_hsl(const Image& image, const HslShift& shift) {
  const double b = image.pixels[0] / 255.0, g = image.pixels[1] / 255.0, r = image.pixels[2] / 255.0;
  const double most = std::max({r, g, b}), least = std::min({r, g, b}), spread = most - least;
  const double l = (most + least) / 2;
  const double s = spread == 0 ? 0 : l < 0.5 ? spread / (most + least) : spread / (2 - most - least);
  double h = spread == 0 ? 0
             : most == r ? 60 * (g - b) / spread
             : most == g ? 120 + 60 * (b - r) / spread
                         : 240 + 60 * (r - g) / spread;
  if (h < 0) h += 360;
  const auto move = [](double value, int by, int max) {
    return std::clamp(std::nearbyint(value) + by, 0.0, double(max));
  };
  h = 2 * move(h / 2, shift.h, 180);
  const double light = move(l * 255, shift.l, 255) / 255, color = move(s * 255, shift.s, 255) / 255;
  const double p2 = light <= 0.5 ? light * (1 + color) : light + color - light * color, p1 = 2 * light - p2;
  const auto channel = [&](double hue) {
    hue = std::fmod(hue + 720, 360);
    if (hue < 60) return p1 + (p2 - p1) * hue / 60;
    if (hue < 180) return p2;
    if (hue < 240) return p1 + (p2 - p1) * (240 - hue) / 60;
    return p1;
  };
  return pixel(rounded(255 * channel(h - 120)), rounded(255 * channel(h)), rounded(255 * channel(h + 120)));
}

}  // namespace

TEST_CASE("brightness multiplies, rounds and cuts off", "[images]") {
  Image image = pixel(0, 101, 200);
  change_brightness(1.3, image);
  CHECK(image.pixels == std::vector<uint8_t>{0, 131, 255});  // 131.3, 260
  change_brightness(0.5, image);
  CHECK(image.pixels == std::vector<uint8_t>{0, 66, 128});  // 65.5 and 127.5, to even
}

TEST_CASE("contrast moves pixels towards the mean gray, saturation towards their own", "[images]") {
  const Image original = test::gradient_image(7, 5, 3, 1);
  double mean = 0;
  for (int i = 0; i < 35; i++) mean += gray(&original.pixels[static_cast<size_t>(3 * i)]) / 35;
  for (const double factor : {0.6, 0.9, 1.4}) {
    std::vector<uint8_t> by_mean, by_own;
    for (size_t i = 0; i < original.pixels.size(); i++) {
      const double own = gray(&original.pixels[i - i % 3]);
      by_mean.push_back(rounded(factor * original.pixels[i] + (1 - factor) * mean));
      by_own.push_back(rounded(factor * original.pixels[i] + (1 - factor) * own));
    }
    Image image = original;
    change_contrast(factor, image);
    CHECK(within_one(image, by_mean));
    image = original;
    change_saturation(factor, image);
    CHECK(within_one(image, by_own));
  }
  // The weight of red is blue's: 0.299 * 255 = 76.
  Image blue = pixel(255, 0, 0);
  change_saturation(0, blue);
  CHECK(blue.pixels == std::vector<uint8_t>{76, 76, 76});
}

TEST_CASE("hue, saturation and lightness of a pixel move as their definition says", "[images]") {
  Image red = pixel(0, 0, 255);
  shift_hsl({.h = 60}, red);  // 120 degrees; a lightness of 127.5 is 128
  CHECK(red.pixels == std::vector<uint8_t>{1, 255, 1});
  Image gray = pixel(100, 100, 100);
  shift_hsl({.l = 50}, gray);
  CHECK(gray.pixels == std::vector<uint8_t>{150, 150, 150});
  shift_hsl({.l = -300}, gray);
  CHECK(gray.pixels == std::vector<uint8_t>{0, 0, 0});
  Image pale = pixel(90, 100, 140);
  shift_hsl({.s = -255}, pale);  // no color is left: (90 + 140) / 2
  CHECK(pale.pixels == std::vector<uint8_t>{115, 115, 115});
  for (int seed = 0; seed < 300; seed++) {
    RandomStream random(static_cast<uint64_t>(seed), Use::kTest);
    const auto draw = [&] { return static_cast<uint8_t>(random.below(256)); };
    const Image original = pixel(draw(), draw(), draw());
    const HslShift shift{static_cast<int>(random.below(73)) - 36, static_cast<int>(random.below(101)) - 50,
                         static_cast<int>(random.below(101)) - 50};
    Image image = original;
    shift_hsl(shift, image);
    const Image expected = moved_hsl(original, shift);
    INFO("seed " << seed);
    // Hue has 8 bits in steps of 2 degrees, so it may be rounded by one degree the other way.
    for (size_t k = 0; k < 3; k++) CHECK(std::abs(int{image.pixels[k]} - int{expected.pixels[k]}) <= 5);
  }
}

// The alphas 0.1, -0.05 and 0.02 add -3.3105 to red, -3.2387 to green and -3.0605 to blue.
TEST_CASE("noise along the principal components is rounded towards zero", "[images]") {
  Image image = pixel(100, 3, 4);
  add_pca_noise({0.1, -0.05, 0.02}, image);
  CHECK(image.pixels == std::vector<uint8_t>{96, 0, 0});  // 96.94, -0.24, 0.69
  image = pixel(254, 255, 0);
  add_pca_noise({-0.1, 0.05, -0.02}, image);
  CHECK(image.pixels == std::vector<uint8_t>{255, 255, 3});
}

TEST_CASE("random offsets fill their range, and 0 changes nothing", "[images]") {
  // Gray pixels have no hue and no saturation: only lightness shows, and exactly.
  std::set<int> seen;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    RandomStream random(seed, Use::kTest);
    Image image = pixel(100, 100, 100);
    change_color(draw_color_change({.l_max = 5}, random), image);
    seen.insert(image.pixels[0] - 100);
  }
  CHECK(seen == std::set<int>{-4, -3, -2, -1, 0, 1, 2, 3, 4});  // trunc: 5 itself has probability 0
  RandomStream random(1, Use::kTest);
  Image image = test::gradient_image(5, 4, 3, 2);
  change_color(draw_color_change({}, random), image);
  CHECK(image.pixels == test::gradient_image(5, 4, 3, 2).pixels);
}

TEST_CASE("the three factors stay in their range, and their order is random", "[images]") {
  const ColorDistortion distortion{.brightness = 0.4, .contrast = 0.3, .saturation = 0.2};
  const Image original = test::gradient_image(6, 6, 3, 1);
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 200; seed++) {
    RandomStream random(seed, Use::kTest), same(seed, Use::kTest);
    Image image = original, expected = original;
    change_color(draw_color_change(distortion, random), image);
    const double brightness = same.uniform(0.6, 1.4), contrast = same.uniform(0.7, 1.3),
                 saturation = same.uniform(0.8, 1.2);
    const std::vector<int64_t> order = permutation(3, same);
    for (const int64_t step : order) {
      if (step == 0) change_brightness(brightness, expected);
      if (step == 1) change_contrast(contrast, expected);
      if (step == 2) change_saturation(saturation, expected);
    }
    REQUIRE(within_one(image, expected.pixels));
    REQUIRE(random.next() == same.next());
    orders.insert(order);
  }
  CHECK(orders.size() == 6);
}
