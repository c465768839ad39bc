#include "images/augmentation/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/overloaded.h"
#include "data/make_images.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// An image whose channel 0 is x and channel 1 is y, both halved if that is needed to fit into 8 bits.
Image coordinates(int height, int width) {
  Image image;
  image.resize(height, width, 3);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      image.at(y, x)[0] = static_cast<uint8_t>(x);
      image.at(y, x)[1] = static_cast<uint8_t>(y);
      image.at(y, x)[2] = 0;
    }
  }
  return image;
}

ImageSize size_after(ImageSize size, const GeometryStep& step) {
  return std::visit(Overloaded{[](const Resize& resize) { return resize.size; },
                               [](const Warp& warp) {
                                 return ImageSize{warp.map.height, warp.map.width};
                               },
                               [&](const Border& border) {
                                 return ImageSize{size.height + 2 * border.width, size.width + 2 * border.width};
                               },
                               [](const Cut& cut) {
                                 return ImageSize{cut.part.height, cut.part.width};
                               }},
                    step);
}

// Gives only the part that was asked for, and a few rows and columns more.
class PartialImage : public OpenImage {
 public:
  explicit PartialImage(const Image& whole) : whole_(whole) {}
  [[nodiscard]] ImageSize size() const override { return {whole_.height, whole_.width}; }
  [[nodiscard]] int channels() const override { return whole_.channels; }
  Result<ImagePart> pixels(const Window& wanted) override {
    Window given = wanted;
    if (given.x > 0) given = {given.y, given.x - 1, given.height, given.width + 1};
    if (given.y + given.height < whole_.height) given.height++;
    part_.resize(given.height, given.width, whole_.channels);
    const size_t row_bytes = static_cast<size_t>(given.width) * static_cast<size_t>(whole_.channels);
    for (int y = 0; y < given.height; y++) std::memcpy(part_.at(y, 0), whole_.at(given.y + y, given.x), row_bytes);
    pixels_given = given.height * given.width;
    return ImagePart{&part_, given};
  }

  int pixels_given = 0;

 private:
  const Image& whole_;
  Image part_;
};

Image carried_out(const std::vector<GeometryStep>& steps, const Image& image) {
  ImageMemory memory;
  WholeImage whole(image);
  ImageSize size{image.height, image.width};
  for (const GeometryStep& step : steps) size = size_after(size, step);
  CropRows rows = must(make_crop(steps, whole, memory));
  Image out;
  out.resize(static_cast<int>(size.height), static_cast<int>(size.width), image.channels);
  for (int y = 0; y < out.height; y++)
    std::memcpy(out.at(y, 0), rows.row(y), static_cast<size_t>(out.width) * out.channels);
  return out;
}

// Applies the distortion, but not the crop, which is the last step.
Image transformed(const Distortion& distortion, const Image& image, uint64_t seed = 1) {
  RandomStream random(seed, Use::kTest);
  std::vector<GeometryStep> steps =
      must(draw_augmentation(distortion, {image.height, image.width}, {1, 1}, random)).geometry;
  REQUIRE(std::holds_alternative<Cut>(steps.back()));
  steps.pop_back();
  return carried_out(steps, image);
}

// Applies the distortion and returns the crop as an image.
Image cropped(const Distortion& distortion, int height, int width, const Image& image, uint64_t seed = 1) {
  RandomStream random(seed, Use::kTest);
  return carried_out(must(draw_augmentation(distortion, {image.height, image.width}, {height, width}, random)).geometry,
                     image);
}

ImageSize size_of(const Image& image) {
  return {image.height, image.width};
}

void check_size(const Image& image, int64_t height, int64_t width) {
  CHECK(size_of(image).height == height);
  CHECK(size_of(image).width == width);
}

// How many source pixels the crop covers, from its first and last coordinates with nearest-neighbor sampling.
double span_of(const Image& crop, int channel) {
  const int last = crop.at(crop.height - 1, crop.width - 1)[channel], first = crop.at(0, 0)[channel];
  const double steps = channel == 0 ? crop.width - 1 : crop.height - 1;
  return (last - first) * (steps + 1) / steps;
}

}  // namespace

TEST_CASE("resizing gives the shorter edge the requested length, larger or smaller", "[images]") {
  check_size(transformed({.resize = 256}, test::gradient_image(500, 375, 3, 1)), 341, 256);
  check_size(transformed({.resize = 256}, test::gradient_image(375, 500, 3, 1)), 256, 341);
  check_size(transformed({.resize = 7}, test::gradient_image(1, 1, 1, 1)), 7, 7);
  check_size(transformed({.resize = 3}, test::gradient_image(9, 200, 4, 1)), 3, 66);
  const Image same = test::gradient_image(30, 20, 3, 1);
  CHECK(transformed({.resize = 20}, same).pixels == same.pixels);
}

// Input 224: 256 or less stays, as do images that are just large enough.
TEST_CASE("an image is fitted to the crop: reduced if it is much larger, enlarged if it is smaller", "[images]") {
  const auto fitted = [](ImageSize from, ImageSize crop) {
    const FirstResize resize = first_resize(kFitCrop, Interpolation::kBilinear, from, crop);
    return fmt::format("{} x {} {}", resize.size.height, resize.size.width,
                       resize.method == Interpolation::kArea ? "area" : "bilinear");
  };
  const ImageSize usual{224, 224};
  CHECK(fitted({375, 500}, usual) == "256 x 341 area");
  CHECK(fitted({500, 375}, usual) == "341 x 256 area");
  CHECK(fitted({256, 400}, usual) == "256 x 400 bilinear");
  CHECK(fitted({257, 400}, usual) == "256 x 398 area");
  CHECK(fitted({224, 224}, usual) == "224 x 224 bilinear");
  CHECK(fitted({100, 150}, usual) == "224 x 336 bilinear");
  CHECK(fitted({150, 100}, usual) == "336 x 224 bilinear");
  CHECK(fitted({32, 32}, {28, 28}) == "32 x 32 bilinear");  // CIFAR's images stay as they are
  CHECK(fitted({28, 28}, {28, 28}) == "28 x 28 bilinear");
  CHECK(fitted({375, 500}, {28, 28}) == "32 x 42 area");
  CHECK(fitted({375, 500}, {299, 299}) == "342 x 456 area");
  CHECK(fitted({64, 300}, {32, 100}) == "37 x 173 area");  // a crop that is no square
  CHECK(fitted({300, 64}, {32, 100}) == "468 x 100 bilinear");
  CHECK(fitted({1, 1}, usual) == "224 x 224 bilinear");
  // Fitting a fitted image changes nothing: a cache keeps it so.
  for (int64_t height = 1; height < 600; height += 37) {
    for (int64_t width = 1; width < 600; width += 41) {
      const ImageSize once = first_resize(kFitCrop, Interpolation::kBilinear, {height, width}, {32, 100}).size;
      CHECK(first_resize(kFitCrop, Interpolation::kBilinear, once, {32, 100}).size == once);
    }
  }
}

TEST_CASE("the requested method of resampling is used", "[images]") {
  Image edge;
  edge.resize(1, 2, 1);
  edge.pixels = {0, 200};
  Distortion distortion{.interpolation = Interpolation::kNearest, .resize = 2};
  CHECK(transformed(distortion, edge).pixels == std::vector<uint8_t>{0, 0, 200, 200, 0, 0, 200, 200});
  distortion.interpolation = Interpolation::kBilinear;
  CHECK(transformed(distortion, edge).pixels == std::vector<uint8_t>{0, 50, 150, 200, 0, 50, 150, 200});
  RandomStream random(1, Use::kTest);
  const ImageSize ten{10, 10}, five{5, 5};
  const auto chosen = [&](int64_t height, int64_t width) {
    return choose(Interpolation::kAuto, ten, {height, width}, random);
  };
  CHECK(chosen(11, 11) == Interpolation::kCubic);
  CHECK(chosen(9, 9) == Interpolation::kArea);
  CHECK(chosen(11, 9) == Interpolation::kBilinear);
  CHECK(chosen(10, 20) == Interpolation::kBilinear);
  CHECK(choose(Interpolation::kLanczos4, ten, five, random) == Interpolation::kLanczos4);
  int seen = 0;
  for (int i = 0; i < 100; i++) seen |= 1 << static_cast<int>(choose(Interpolation::kRandom, ten, five, random));
  CHECK(seen == 0b11111);
}

// The expected numbers are those of MXNet's formula.
TEST_CASE("the affine map is that of the formula", "[images]") {
  const AffineMap map = affine_map({360, 480}, {.shear = 0.05f, .angle = 10, .scale = 0.6f, .ratio = 1.2f}, {});
  const double expected[2][3] = {{0.531485, 0.126947, -6.406867}, {-0.113661, 0.644601, 19.250291}};
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 3; j++) CHECK(map.m[i][j] == Approx(expected[i][j]).margin(2e-5));
  }
  CHECK(map.width == 288);
  CHECK(map.height == 216);
  const Distortion bounded{.img_size_min = 100, .img_size_max = 200};
  CHECK(affine_map({360, 150}, {.scale = 0.5f}, bounded).height == 180);
  CHECK(affine_map({360, 150}, {.scale = 0.5f}, bounded).width == 100);
  CHECK(affine_map({360, 450}, {.scale = 0.5f}, bounded).width == 200);
  CHECK(affine_map({3, 1}, {.scale = 0.1f}, {}).width == 1);  // no canvas is empty
}

// A rotation by 90 degrees about the center moves (x, y) to (y, N - x): column 0 leaves the image, and row 0 is
// empty.
TEST_CASE("a rotation by a right angle moves whole pixels", "[images]") {
  const Image image = test::position_image(5, 5, 1);
  const Image turned = transformed({.rotate = 90, .fill_value = 9}, image);
  check_size(turned, 5, 5);
  for (int y = 0; y < 5; y++) {
    for (int x = 0; x < 5; x++) CHECK(*turned.at(y, x) == (y == 0 ? 9 : *image.at(x, 5 - y)));
  }
  CHECK(transformed({.rotate = 90, .fill_value = 9}, image, 2).pixels == turned.pixels);
}

// Compares every inner pixel of the result with the plain inverse map, on an image whose values are linear in x and y.
TEST_CASE("an affine step takes each pixel from where the map says", "[images]") {
  const Image image = coordinates(120, 150);
  const Distortion distortion{.rotate_max = 10, .shear_max = 0.1, .scale = {0.7, 1.3}, .aspect = {0.75, 1.25}};
  for (uint64_t seed = 1; seed <= 20; seed++) {
    INFO("seed " << seed);
    const Image out = transformed(distortion, image, seed);
    // Draws the same random numbers again.
    RandomStream random(seed, Use::kTest);
    AffineDraw draw;
    draw.shear = static_cast<float>(random.uniform(-0.1, 0.1));
    draw.angle = static_cast<int>(random.below(21)) - 10;
    draw.scale = static_cast<float>(random.uniform(0.7, 1.3));
    draw.ratio = static_cast<float>(random.uniform(0.75, 1.25));
    const AffineMap map = affine_map({120, 150}, draw, distortion);
    REQUIRE(out.height == map.height);
    REQUIRE(out.width == map.width);
    CHECK((out.height >= 84 && out.height <= 156));
    const double det = double{map.m[0][0]} * map.m[1][1] - double{map.m[0][1]} * map.m[1][0];
    int inner = 0;
    for (int y = 0; y < out.height; y++) {
      for (int x = 0; x < out.width; x++) {
        const double dx = x - map.m[0][2], dy = y - map.m[1][2];
        const double from_x = (map.m[1][1] * dx - map.m[0][1] * dy) / det;
        const double from_y = (map.m[0][0] * dy - map.m[1][0] * dx) / det;
        if (from_x < 1 || from_x > 148 || from_y < 1 || from_y > 118) continue;
        inner++;
        REQUIRE(std::abs(out.at(y, x)[0] - from_x) <= 0.6);  // rounding, and OpenCV's steps of 1/32 pixel
        REQUIRE(std::abs(out.at(y, x)[1] - from_y) <= 0.6);
      }
    }
    CHECK(inner > out.height * out.width / 2);
  }
}

TEST_CASE("angles come from the list, else from the fixed angle, else they are random", "[images]") {
  const Image image = test::position_image(9, 9, 1);
  const auto turned = [&](int angle) { return transformed({.rotate = angle}, image).pixels; };
  int seen = 0;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    const auto listed = transformed({.rotate_max = 5, .rotate = 45, .rotate_list = {90, 180}}, image, seed).pixels;
    REQUIRE((listed == turned(90) || listed == turned(180)));
    seen |= listed == turned(90) ? 1 : 2;
    REQUIRE(transformed({.rotate_max = 5, .rotate = 45}, image, seed).pixels == turned(45));
  }
  CHECK(seen == 3);
}

TEST_CASE("a crop by area has the requested area and aspect", "[images]") {
  const Image image = coordinates(200, 240);
  const Distortion distortion{.interpolation = Interpolation::kNearest,
                              .aspect = {0.75, 4.0 / 3},
                              .random_resized_crop = true,
                              .area = {0.08, 1}};
  double smallest = 1, largest = 0;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    const Image crop = cropped(distortion, 64, 64, image, seed);
    const double width = span_of(crop, 0), height = span_of(crop, 1);
    const double area = width * height / (200 * 240);
    REQUIRE(area > 0.07);
    REQUIRE(area <= 1.0);
    REQUIRE(width / height > 0.70);
    REQUIRE(width / height < 1.45);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
  }
  CHECK(smallest < 0.15);
  CHECK(largest > 0.8);
}

TEST_CASE("an image that no random shape fits is cropped in the center", "[images]") {
  const Image image = coordinates(4, 200);
  const Distortion distortion{.aspect = {0.9, 1.1}, .random_resized_crop = true, .area = {0.5, 1}};
  const Image crop = cropped(distortion, 4, 4, image);
  CHECK(crop.at(0, 0)[0] == 98);
  CHECK(crop.at(3, 3)[1] == 3);
  // With all limits at 1, nothing is drawn.
  CHECK(cropped({.random_resized_crop = true}, 4, 4, image).pixels == crop.pixels);
}

TEST_CASE("a square crop has an edge in the range, and is in the center unless it is random", "[images]") {
  const Image image = coordinates(100, 100);
  Distortion distortion{.interpolation = Interpolation::kNearest, .crop_size_min = 40, .crop_size_max = 60};
  std::map<int, int> corners;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    const Image crop = cropped(distortion, 20, 20, image, seed);
    REQUIRE(crop.at(0, 0)[0] == crop.at(0, 0)[1]);
    corners[crop.at(0, 0)[0]]++;  // (100 - edge) div 2
  }
  CHECK(corners.begin()->first == 20);
  CHECK(corners.rbegin()->first == 30);
  CHECK(corners.size() == 11);
  distortion.random_crop = true;
  int off_centre = 0;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    const Image crop = cropped(distortion, 20, 20, image, seed);
    off_centre += crop.at(0, 0)[0] != crop.at(0, 0)[1] ? 1 : 0;
  }
  CHECK(off_centre > 40);
  RandomStream random(1, Use::kTest);
  CHECK(draw_augmentation(distortion, {59, 100}, {20, 20}, random).error().code == Code::kUsage);
}

// Sizes that real data sets do not have. The result must be a crop or an error that blames the data.
TEST_CASE("for every size of an image a step succeeds or returns an error", "[images]") {
  const std::vector<std::pair<int, int>> sizes = {{1, 1},      {1, 2},      {2, 1},      {3, 5},   {1, 1000},
                                                  {1000, 1},   {7, 300},    {300, 7},    {28, 28}, {1, 100000},
                                                  {200000, 1}, {20, 33000}, {33000, 15}, {64, 64}};
  for (const int method : {0, 1, 2, 3, 4, 9, 10}) {
    const auto interpolation = static_cast<Interpolation>(method);
    const std::vector<Distortion> distortions = {
        {.interpolation = interpolation, .resize = 32},
        {.interpolation = interpolation, .resize = 300},
        {.interpolation = interpolation, .rotate_max = 180, .shear_max = 0.5, .scale = {0.01, 4}, .aspect = {0.1, 1.9}},
        {.interpolation = interpolation, .rotate = 30, .img_size_min = 10, .img_size_max = 20, .pad = 3},
        {.interpolation = interpolation, .scale = {1e4, 1e9}},
        {.interpolation = interpolation, .aspect = {0.01, 100}, .random_resized_crop = true, .area = {0.0001, 1}},
        {.interpolation = interpolation, .random_crop = true, .crop_size_min = 1, .crop_size_max = 2}};
    for (const Distortion& distortion : distortions) {
      for (const auto& [height, width] : sizes) {
        INFO("method " << method << ", distortion " << &distortion - distortions.data() << ", " << height << " x "
                       << width);
        const Image image = test::gradient_image(height, width, 3, 1);
        RandomStream random(static_cast<uint64_t>(height + method), Use::kTest);
        const Result<Augmentation> augmentation = draw_augmentation(distortion, {height, width}, {28, 20}, random);
        if (!augmentation) {
          const bool too_small = augmentation.error().message.find("--max-crop-size") != std::string::npos;
          CHECK(augmentation.error().code == (too_small ? Code::kUsage : Code::kData));
          continue;
        }
        ImageMemory memory;
        WholeImage whole(image);
        ImageSize size{height, width};
        for (const GeometryStep& step : augmentation->geometry) size = size_after(size, step);
        CHECK(size == ImageSize{28, 20});
        Result<CropRows> rows = make_crop(augmentation->geometry, whole, memory);
        if (!rows) CHECK(rows.error().code == Code::kData);
        // Reads all pixels, so that AddressSanitizer sees them.
        for (int y = 0; rows && y < 28; y++) CHECK(std::vector<uint8_t>(rows->row(y), rows->row(y) + 60).size() == 60);
      }
    }
  }
}

// With the whole image in memory each step is made as it is; a part of it must give the same crop.
TEST_CASE("the part of an image that an augmentation needs gives the same crop as the whole image", "[images]") {
  const std::vector<Distortion> distortions = {
      {.random_crop = true},
      {.resize = 50},
      {.resize = 50, .random_crop = true},
      {.resize = 150, .random_crop = true},
      {.aspect = {0.75, 4.0 / 3}, .random_resized_crop = true, .area = {0.08, 1}},
      {.interpolation = Interpolation::kAuto, .aspect = {0.75, 1.5}, .random_resized_crop = true, .area = {0.08, 1}},
      {.resize = 90, .random_crop = true, .crop_size_min = 40, .crop_size_max = 60},
      {.rotate_max = 10, .pad = 2, .random_crop = true}};
  int64_t given = 0, all = 0;
  for (const Distortion& distortion : distortions) {
    for (const int channels : {1, 3, 4}) {
      const Image image = test::gradient_image(83, 121, channels, 2);
      for (uint64_t seed = 1; seed <= 20; seed++) {
        INFO("distortion " << &distortion - distortions.data() << ", " << channels << " channels, seed " << seed);
        RandomStream random(seed, Use::kTest);
        const Augmentation augmentation = must(draw_augmentation(distortion, {83, 121}, {28, 20}, random));
        ImageMemory memory, memory_of_part;
        WholeImage whole(image);
        PartialImage part(image);
        CropRows expected = must(make_crop(augmentation.geometry, whole, memory));
        CropRows rows = must(make_crop(augmentation.geometry, part, memory_of_part));
        for (int y = 0; y < 28; y++) {
          REQUIRE(std::memcmp(rows.row(y), expected.row(y), static_cast<size_t>(20) * channels) == 0);
        }
        given += part.pixels_given;
        all += 83 * 121;
      }
    }
  }
  CHECK(given < all * 2 / 3);
}
