// What augmentations are drawn, against the formulas: bounds, means, and Pearson's chi-square test with fixed seeds.
// Only plans are drawn (augmentation.h); no pixel is touched.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "images/augmentation/augmentation.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// The value that chi-square with so many degrees of freedom exceeds with a probability of 0.001 (Wilson and Hilferty).
double chi_square_max(size_t freedom) {
  const double part = 2.0 / (9.0 * static_cast<double>(freedom));
  return static_cast<double>(freedom) * std::pow(1 - part + 3.0902 * std::sqrt(part), 3);
}

// Counts of cells of known probability.
class Cells {
 public:
  explicit Cells(std::vector<double> probability)
      : probability_(std::move(probability)), counts_(probability_.size(), 0) {}
  static Cells uniform(size_t count) { return Cells(std::vector<double>(count, 1.0 / static_cast<double>(count))); }

  void add(int64_t cell) {
    REQUIRE(cell >= 0);
    REQUIRE(cell < std::ssize(counts_));
    counts_[static_cast<size_t>(cell)]++;
    all_++;
  }
  // For a value of [0, 1] that is uniform.
  void add_unit(double value) {
    REQUIRE(value >= 0);
    REQUIRE(value <= 1);
    add(std::min(static_cast<int64_t>(value * static_cast<double>(counts_.size())), std::ssize(counts_) - 1));
  }

  // Whether the counts are as random as they should be: neither too far from what is expected nor too few for the test.
  [[nodiscard]] bool fit() const {
    double chi_square = 0;
    for (size_t i = 0; i < counts_.size(); i++) {
      const double expected = probability_[i] * static_cast<double>(all_);
      if (expected < 5) return false;
      chi_square += std::pow(static_cast<double>(counts_[i]) - expected, 2) / expected;
    }
    UNSCOPED_INFO("chi-square " << chi_square << " of at most " << chi_square_max(counts_.size() - 1));
    return chi_square <= chi_square_max(counts_.size() - 1);
  }

 private:
  std::vector<double> probability_;
  std::vector<int64_t> counts_;
  int64_t all_ = 0;
};

// Values of [0, 1] that should be uniform and independent of each other: each is tested alone, and all together.
class IndependentUnits {
 public:
  explicit IndependentUnits(size_t count)
      : each_(count, Cells::uniform(20)),
        sums_(count, 0),
        together_(Cells::uniform(static_cast<size_t>(std::pow(3, count)))) {}

  void add(const std::vector<double>& values) {
    int64_t cell = 0;
    for (size_t i = 0; i < values.size(); i++) {
      each_[i].add_unit(values[i]);
      sums_[i] += values[i];
      cell = 3 * cell + std::min<int64_t>(static_cast<int64_t>(3 * values[i]), 2);
    }
    together_.add(cell);
    all_++;
  }
  void check() const {
    const double deviation = std::sqrt(1.0 / 12 / static_cast<double>(all_));
    for (size_t i = 0; i < each_.size(); i++) {
      INFO("value " << i);
      CHECK(each_[i].fit());
      CHECK(std::abs(sums_[i] / static_cast<double>(all_) - 0.5) < 3.3 * deviation);
    }
    CHECK(together_.fit());
  }

 private:
  std::vector<Cells> each_;
  std::vector<double> sums_;
  Cells together_;
  int64_t all_ = 0;
};

Augmentation draw_one(const Distortion& distortion, ImageSize from, ImageSize to, uint64_t record) {
  RandomStream random(5, Use::kAugment, 1, record);
  return must(draw_augmentation(distortion, from, to, random));
}

// The first step of this kind.
template <class Step>
const Step& step_of(const Augmentation& augmentation) {
  for (const GeometryStep& step : augmentation.geometry) {
    if (const Step* found = std::get_if<Step>(&step)) return *found;
  }
  throw std::runtime_error("the augmentation lacks a step");
}

double unit(double value, double least, double most) {
  return (value - least) / (most - least);
}

// A whole number from 0 to `most` as a number of [0, 1), which is uniform if the whole number is.
double unit_of_whole(int64_t value, int64_t most, uint64_t record) {
  REQUIRE(value >= 0);
  REQUIRE(value <= most);
  RandomStream fraction(record, Use::kTest, static_cast<uint64_t>(value));
  return (static_cast<double>(value) + fraction.uniform()) / (static_cast<double>(most) + 1);
}

// Undoes the formula of the affine map (docs/data.md, "How images are changed").
AffineDraw parameters_of(const AffineMap& map) {
  const double angle = std::atan2(-map.m[1][0], map.m[1][1]), a = std::cos(angle), b = std::sin(angle);
  const double ws = std::hypot(map.m[1][0], map.m[1][1]);
  const double hs = map.m[0][0] * a + map.m[0][1] * b, ratio = ws / hs;
  return {.shear = static_cast<float>((map.m[0][1] * a - map.m[0][0] * b) / ws),
          .angle = static_cast<int>(std::lround(angle * 180 / std::numbers::pi)),
          .scale = static_cast<float>(hs * (1 + ratio) / 2),
          .ratio = static_cast<float>(ratio)};
}

// The distribution function of width / height of a crop by area: the ratio is uniform, and inverted with probability
// 0.5.
double aspect_distribution(double value, const Range& aspect) {
  const double straight = unit(value, aspect.min, aspect.max), inverted = unit(1 / value, aspect.max, aspect.min);
  return (std::clamp(straight, 0.0, 1.0) + std::clamp(inverted, 0.0, 1.0)) / 2;
}

}  // namespace

TEST_CASE("random crops lie at every position with the same probability", "[images]") {
  Cells positions = Cells::uniform(size_t{9} * 13);
  for (uint64_t record = 0; record < 6000; record++) {
    const Window part = step_of<Cut>(draw_one({.random_crop = true}, {40, 60}, {32, 48}, record)).part;
    REQUIRE(part.height == 32);
    REQUIRE(part.width == 48);
    REQUIRE(part.x <= 12);
    positions.add(13 * part.y + part.x);
  }
  CHECK(positions.fit());
}

// The image is so large that every shape fits.
TEST_CASE("crops by area have a uniform area, aspect and position", "[images]") {
  const Range aspect = GENERATE(Range{0.75, 4.0 / 3}, Range{0.5, 1}, Range{1.2, 1.5});
  const Distortion distortion{.aspect = aspect, .random_resized_crop = true, .area = {0.08, 0.4}};
  const ImageSize from{2000, 2000};
  IndependentUnits units(4);
  for (uint64_t record = 0; record < 6000; record++) {
    const Augmentation drawn = draw_one(distortion, from, {224, 224}, record);
    CHECK(step_of<Resize>(drawn).size == ImageSize{224, 224});
    const Window part = step_of<Cut>(drawn).part;
    const double area = static_cast<double>(part.height) * part.width / (2000.0 * 2000);
    units.add({std::clamp(unit(area, 0.08, 0.4), 0.0, 1.0),
               aspect_distribution(static_cast<double>(part.width) / part.height, aspect),
               unit_of_whole(part.y, from.height - part.height, record),
               unit_of_whole(part.x, from.width - part.width, record)});
    REQUIRE(std::abs(unit(area, 0.08, 0.4) - 0.5) < 0.51);  // edges are rounded
  }
  units.check();
}

// Shapes that do not fit are drawn again, so that large areas are rarer. After ten of them the crop is the central one.
TEST_CASE("crops by area that do not fit are drawn ten times", "[images]") {
  const ImageSize from{300, 900};
  const Distortion distortion{.aspect = {0.5, 1.2}, .random_resized_crop = true, .area = {0.2, 1}};
  // Integrates over area, ratio and the exchange of the edges.
  constexpr int kSteps = 400, kAreas = 8;
  std::vector<double> fits(kAreas, 0);
  for (int i = 0; i < kSteps; i++) {
    const double part = (i + 0.5) / kSteps, area = (0.2 + 0.8 * part) * 300 * 900;
    for (int j = 0; j < kSteps; j++) {
      const double ratio = 0.5 + 0.7 * (j + 0.5) / kSteps;
      const double shorter = std::round(std::sqrt(area / ratio)), longer = std::round(std::sqrt(area * ratio));
      const int ways = (shorter <= 300 && longer <= 900 ? 1 : 0) + (longer <= 300 && shorter <= 900 ? 1 : 0);
      fits[static_cast<size_t>(part * kAreas)] += 0.5 * ways / (kSteps * kSteps);
    }
  }
  double any = 0;
  for (const double probability : fits) any += probability;
  const auto last = std::ranges::find(fits, 0.0);  // larger areas never fit
  std::vector<double> probabilities(fits.begin(), last);
  for (double& probability : probabilities) probability /= any;
  Cells areas(probabilities), fallen({std::pow(1 - any, 10), 1 - std::pow(1 - any, 10)});
  for (uint64_t record = 0; record < 8000; record++) {
    const Augmentation drawn = draw_one(distortion, from, {100, 100}, record);
    const Window part = step_of<Cut>(drawn).part;
    const bool is_central = part == Window{.y = 100, .x = 400, .height = 100, .width = 100};
    fallen.add(is_central ? 0 : 1);
    if (is_central) continue;
    const double area = static_cast<double>(part.height) * part.width / (300.0 * 900);
    areas.add(std::max<int64_t>(static_cast<int64_t>(unit(area, 0.2, 1) * kAreas), 0));
  }
  CHECK(fallen.fit());
  CHECK(areas.fit());
}

TEST_CASE("square crops have uniform edges and positions", "[images]") {
  const Distortion distortion{.random_crop = true, .crop_size_min = 20, .crop_size_max = 60};
  Cells edges = Cells::uniform(41);
  IndependentUnits positions(2);
  for (uint64_t record = 0; record < 6000; record++) {
    const Window part = step_of<Cut>(draw_one(distortion, {400, 300}, {10, 10}, record)).part;
    REQUIRE(part.height == part.width);
    edges.add(part.height - 20);
    positions.add({unit_of_whole(part.y, 400 - part.height, record), unit_of_whole(part.x, 300 - part.width, record)});
  }
  CHECK(edges.fit());
  positions.check();
}

TEST_CASE("mirroring is a fair coin that depends on nothing else", "[images]") {
  Cells with_side = Cells::uniform(4), with_last = Cells::uniform(4);
  bool last = false;
  for (uint64_t record = 0; record < 4000; record++) {
    const Augmentation drawn = draw_one({.random_crop = true, .random_mirror = true}, {40, 51}, {32, 32}, record);
    const bool is_left = step_of<Cut>(drawn).part.x < 10;
    with_side.add((drawn.mirrored ? 2 : 0) + (is_left ? 1 : 0));
    with_last.add((drawn.mirrored ? 2 : 0) + (last ? 1 : 0));
    last = drawn.mirrored;
  }
  CHECK(with_side.fit());
  CHECK(with_last.fit());
}

TEST_CASE("angles are uniform whole degrees", "[images]") {
  const auto angle_of = [](const Distortion& distortion, uint64_t record) {
    return parameters_of(step_of<Warp>(draw_one(distortion, {90, 120}, {50, 50}, record)).map).angle;
  };
  const int most = GENERATE(1, 10, 90);
  Cells angles = Cells::uniform(static_cast<size_t>(2 * most + 1));
  for (uint64_t record = 0; record < 4000; record++) angles.add(angle_of({.rotate_max = most}, record) + most);
  CHECK(angles.fit());

  const std::vector<int> list = {-30, 5, 5, 90, 170};
  Cells listed({0.2, 0.4, 0.2, 0.2});
  for (uint64_t record = 0; record < 1000; record++) {
    const int angle = angle_of({.rotate_max = most, .rotate_list = list}, record);
    listed.add(angle == -30 ? 0 : angle == 5 ? 1 : angle == 90 ? 2 : angle == 170 ? 3 : -1);
  }
  CHECK(listed.fit());
}

TEST_CASE("shear, angle, scale and aspect are uniform and independent", "[images]") {
  const Distortion distortion{.rotate_max = 45, .shear_max = 0.3, .scale = {0.533, 1.2}, .aspect = {0.6, 1.7}};
  IndependentUnits units(4);
  for (uint64_t record = 0; record < 6000; record++) {
    const AffineMap map = step_of<Warp>(draw_one(distortion, {900, 1200}, {100, 100}, record)).map;
    const AffineDraw draw = parameters_of(map);
    units.add({unit(draw.shear, -0.3, 0.3), unit_of_whole(draw.angle + 45, 90, record), unit(draw.scale, 0.533, 1.2),
               unit(draw.ratio, 0.6, 1.7)});
    REQUIRE(std::abs(static_cast<double>(map.height) - 900 * draw.scale) <= 1);
    REQUIRE(std::abs(static_cast<double>(map.width) - 1200 * draw.scale) <= 1);
  }
  units.check();
}

TEST_CASE("scaled images keep their edges within the bounds", "[images]") {
  const Distortion distortion{.scale = {0.1, 3}, .img_size_min = 300, .img_size_max = 1500};
  Cells sizes({(400.0 / 1200 - 0.1) / 2.9 - (300.0 / 1200 - 0.1) / 2.9, 1 - (100.0 / 1200) / 2.9});
  for (uint64_t record = 0; record < 2000; record++) {
    const AffineMap map = step_of<Warp>(draw_one(distortion, {900, 1200}, {100, 100}, record)).map;
    REQUIRE(map.height >= 300);
    REQUIRE(map.height <= 1500);
    REQUIRE(map.width >= 300);
    REQUIRE(map.width <= 1500);
    sizes.add(map.width > 300 && map.width < 400 ? 0 : 1);
  }
  CHECK(sizes.fit());
}

TEST_CASE("brightness, contrast and saturation are uniform, and their order is", "[images]") {
  IndependentUnits units(3);
  Cells orders = Cells::uniform(6);
  for (uint64_t record = 0; record < 6000; record++) {
    RandomStream random(5, Use::kAugment, 1, record);
    const ColorChange drawn = draw_color_change({.brightness = 0.4, .contrast = 0.2, .saturation = 0.9}, random);
    REQUIRE(drawn.jitter.has_value());
    const ColorJitter& jitter = *drawn.jitter;
    units.add({unit(jitter.brightness, 0.6, 1.4), unit(jitter.contrast, 0.8, 1.2), unit(jitter.saturation, 0.1, 1.9)});
    const auto first = static_cast<int>(jitter.order[0]), second = static_cast<int>(jitter.order[1]);
    orders.add(2 * first + (second > first ? second - 1 : second));
  }
  units.check();
  CHECK(orders.fit());
}

// The offset is u * 2 * max - max without its fraction, where u = (u1 + 4 u2) / 5 and u1, u2 are uniform.
TEST_CASE("offsets of hue, saturation and lightness are nearly uniform", "[images]") {
  const auto distribution_of_u = [](double u) {
    if (u < 0.2) return u * u / 0.32;
    return u > 0.8 ? 1 - (1 - u) * (1 - u) / 0.32 : (u - 0.1) / 0.8;
  };
  const auto cells_of = [&](int most) {
    std::vector<double> probability;
    for (int offset = 1 - most; offset < most; offset++) {
      const double from = offset > 0 ? offset : offset - 1, to = offset < 0 ? offset : offset + 1;
      probability.push_back(distribution_of_u((most + to) / (2.0 * most)) -
                            distribution_of_u((most + from) / (2.0 * most)));
    }
    return Cells(probability);
  };
  Cells hues = cells_of(18), saturations = cells_of(25), lightnesses = cells_of(5);
  for (uint64_t record = 0; record < 20000; record++) {
    RandomStream random(5, Use::kAugment, 1, record);
    const ColorChange drawn = draw_color_change({.h_max = 18, .s_max = 25, .l_max = 5}, random);
    REQUIRE(drawn.hsl.has_value());
    hues.add(drawn.hsl->h + 17);
    saturations.add(drawn.hsl->s + 24);
    lightnesses.add(drawn.hsl->l + 4);
  }
  CHECK(hues.fit());
  CHECK(saturations.fit());
  CHECK(lightnesses.fit());
}

TEST_CASE("noise along the principal components is normal", "[images]") {
  IndependentUnits units(3);
  std::array<double, 3> sum = {}, squares = {};
  constexpr int kDraws = 6000;
  for (uint64_t record = 0; record < kDraws; record++) {
    RandomStream random(5, Use::kAugment, 1, record);
    const ColorChange drawn = draw_color_change({.pca_noise = 0.1}, random);
    REQUIRE(drawn.pca.has_value());
    std::vector<double> values;
    for (size_t i = 0; i < 3; i++) {
      const double amount = (*drawn.pca)[i];
      sum[i] += amount;
      squares[i] += amount * amount;
      values.push_back(0.5 * std::erfc(-amount / 0.1 / std::numbers::sqrt2));  // the normal distribution function
    }
    units.add(values);
  }
  units.check();
  for (size_t i = 0; i < 3; i++) {
    CHECK(std::abs(sum[i] / kDraws) < 0.1 * 3.3 / std::sqrt(kDraws));
    CHECK(std::abs(squares[i] / kDraws / 0.01 - 1) < 3.3 * std::sqrt(2.0 / kDraws));
  }
}

TEST_CASE("contrast and illumination of the numbers are uniform", "[images]") {
  IndependentUnits units(2);
  for (uint64_t record = 0; record < 4000; record++) {
    const Augmentation drawn =
        draw_one({.random_contrast = 0.3, .random_illumination = 20}, {40, 40}, {32, 32}, record);
    units.add({unit(drawn.contrast, 0.7, 1.3), unit(drawn.light, -20, 20)});
  }
  units.check();
}
